"""Messages that a broker has stored before it was started again are traced as they were before."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from triomq.app import open_broker
from triomq.core import Properties

from .conftest import Traced


@pytest.mark.parametrize(("rate", "sampled"), [(0.0, 1), (1.0, 0)])
async def test_header_decides_after_a_restart_too(
    open_traced: Callable[..., Traced], tmp_path: Path, rate: float, sampled: int
) -> None:
    parent = f"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0{sampled}"
    with trio.fail_after(60):
        async with open_broker(data_dir=tmp_path, store_host="thread") as broker:
            await broker.declare_queue("q")
            for headers in ({"traceparent": parent}, {}):
                await broker.publish("", "q", b"x", properties=Properties(headers=headers))
        traced = open_traced(rate=rate)
        async with open_broker(data_dir=tmp_path, store_host="thread") as broker:
            broker.directory.trace(traced.recorder)
            async with broker.queue("q").open_feed() as feed:
                for _ in range(2):
                    (await anext(feed)).accept()
    expected = 1 if sampled else 2
    assert [(row["kind"], row["msg_id"]) for row in traced.take()] == [("delivered", expected), ("accepted", expected)]
