"""The trace log of a real broker, asked for a path: writer and reader agree on names."""

from pathlib import Path

import trio

from triomq.analytics import find_paths
from triomq.app import open_broker
from triomq.tracelog import Trace


async def test_dead_letter_is_followed_through_the_log_that_a_broker_has_written(tmp_path: Path) -> None:
    with trio.fail_after(100):
        async with open_broker(trace=Trace(str(tmp_path))) as broker:
            await broker.declare_queue("failed")
            await broker.declare_queue("orders", dead_letter_sink="", dead_letter_key="failed")
            await broker.publish("", "orders", b"1")
            async with broker.queue("orders").open_feed() as feed:
                async for delivery in feed:
                    delivery.reject()
                    break
            async with broker.queue("failed").open_feed() as feed:
                async for delivery in feed:
                    delivery.accept()
                    break
    (path,) = (await trio.to_thread.run_sync(find_paths, tmp_path, "failed/1")).paths
    assert [stay.name for stay in path.stays] == ["orders/1", "failed/1"]
    assert [stay.outcome for stay in path.stays] == ["rejected", "accepted"]
    assert [len(stay.spans()) for stay in path.stays] == [2, 2]
    assert "from orders/1" in list(path.stays[1].events[0].details())
