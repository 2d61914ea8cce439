"""On a listener with TLS a direct connection is TLS too, and a lease from it is worth nothing elsewhere."""

from pathlib import Path

import pytest
import trio

from transports.test_tls import Files, client_context
from triomq.app import open_broker
from triomq.clients import open_amqp, open_dmp_feed, open_dmp_sink
from triomq.endpoints import AMQP
from triomq.protocols.amqp import DirectPut, DirectPutOk
from triomq.protocols.dmp import PROTOCOL_HEADER, response

from .conftest import PATIENCE


async def test_messages_go_directly_over_tls(tmp_path: Path) -> None:
    tls = Files(tmp_path).tls()
    async with open_broker() as broker:
        listening = await broker.listen(AMQP(port=0, tls=tls))
        url = f"amqps://guest:guest@localhost:{listening.port}"
        with trio.fail_after(PATIENCE):
            async with (
                open_amqp(url, ssl_context=client_context()) as connection,
                connection.open_channel() as channel,
            ):
                await channel.declare_queue("mine", exclusive=True)
                async with open_dmp_feed(channel, "mine") as feed:
                    async with open_dmp_sink(channel, "") as sink:
                        for number in range(500):
                            await sink.publish("mine", b"%d" % number + bytes(2000))
                    found = [(await anext(feed)).body for _ in range(500)]
    assert found == [b"%d" % number + bytes(2000) for number in range(500)]


@pytest.mark.parametrize("where", ["in plain on the same port", "on a plain port"])
async def test_lease_from_tls_is_not_shown_in_plain(tmp_path: Path, where: str) -> None:
    async with open_broker() as broker:
        secure = await broker.listen(AMQP(port=0, tls=Files(tmp_path).tls()))
        plain = await broker.listen(AMQP(port=0))
        url = f"amqps://guest:guest@localhost:{secure.port}"
        with trio.fail_after(PATIENCE):
            async with (
                open_amqp(url, ssl_context=client_context()) as connection,
                connection.open_channel() as channel,
            ):
                lease = (await channel.call(DirectPut(""), DirectPutOk)).lease.encode()
                port = secure.port if where == "in plain on the same port" else plain.port
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                await stream.send_all(PROTOCOL_HEADER + bytes((len(lease),)) + lease)
                found = b""
                while data := await stream.receive_some(1000):
                    found += bytes(data)
                await stream.aclose()
    if where == "on a plain port":
        assert found == response(200, "DMP/0.1") + response(402, "lease is not valid; ask for a new one")
    else:
        assert b"200" not in found
