"""On a listener with a Unix socket direct connections come over that too."""

from pathlib import Path

import trio

from triomq.app import open_broker
from triomq.clients import open_amqp, open_dmp_feed, open_dmp_sink
from triomq.endpoints import AMQP

from .conftest import PATIENCE


async def test_messages_go_directly_over_a_unix_socket(tmp_path: Path) -> None:
    async with open_broker(AMQP(path=str(tmp_path / "s"))):
        with trio.fail_after(PATIENCE):
            async with (
                open_amqp(f"amqp+unix://guest:guest@{tmp_path}/s") as connection,
                connection.open_channel() as channel,
            ):
                await channel.declare_queue("mine", exclusive=True)
                async with open_dmp_feed(channel, "mine") as feed, open_dmp_sink(channel, "") as sink:
                    await sink.publish("mine", b"directly")
                    assert (await anext(feed)).body == b"directly"
