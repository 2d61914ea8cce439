"""Endpoints that speak WebSocket: by trio-websocket and by hand; log-in, limits, deadlines and ends as over TCP."""

import logging
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme
from trio_websocket import (
    CloseReason,
    ConnectionClosed,
    WebSocketConnection,
    open_websocket_url,
)

from endpoints.client import Client
from endpoints.websocket import WebSocketStream
from fuzz.websocket_words import BINARY, CLOSE, PING, TEXT, frame, frames_of, request
from triomq.app import Broker, Permission, User, open_broker
from triomq.app.config import load_config
from triomq.endpoints import AMQP, TLS, WebSocket
from triomq.errors import ConfigError
from triomq.protocols.amqp import plain

HEADER = b"AMQP\0\0\x09\x01"


class Foreign(trio.abc.Stream):
    """A connection of trio-websocket as a stream."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self.connection = connection

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.connection.send_message(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            data = await self.connection.get_message()
        except ConnectionClosed:
            return b""
        assert isinstance(data, bytes)
        return data

    async def aclose(self) -> None:
        await self.connection.aclose()


OPENED: list[trio.SocketStream] = []
"""What a test has dialled, to be closed before its broker."""


@asynccontextmanager
async def served(websocket: WebSocket | None = None, **options: object) -> AsyncIterator[Broker]:
    config = AMQP(host="127.0.0.1", port=0, websocket=websocket or WebSocket())
    with trio.fail_after(60):
        async with open_broker(config, **options) as broker:  # type: ignore[arg-type]
            try:
                yield broker
            finally:
                while OPENED:
                    OPENED.pop().socket.close()


def url_of(broker: Broker, path: str = "/") -> str:
    return f"ws://127.0.0.1:{broker.listening[0].port}{path}"


async def dial(broker: Broker) -> trio.SocketStream:
    OPENED.append(await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port))
    return OPENED[-1]


async def shake_hands(broker: Broker, *fields: str) -> trio.SocketStream:
    stream = await dial(broker)
    await stream.send_all(request(*fields))
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 101 ")
    return stream


async def read_all(stream: trio.SocketStream) -> bytes:
    found = b""
    while data := await stream.receive_some():
        found += data
    return found


async def test_foreign_client_publishes_consumes_and_is_told_the_subprotocol() -> None:
    async with served() as broker, open_websocket_url(url_of(broker), subprotocols=["amqp"]) as connection:
        assert connection.subprotocol == "amqp"
        client = Client(Foreign(connection))
        await client.connect()
        await client.open_channel()
        await client.declare("q")
        await client.send(1, "", "q", b"one", bytes(300_000))
        got = [await client.get("q"), await client.get("q")]
        assert [one.body for one in got if one] == [b"one", bytes(300_000)]
        await client.leave()


async def test_amqp_may_be_cut_into_messages_and_frames_anyhow() -> None:
    async with served() as broker:
        stream = await shake_hands(broker)
        for octet in HEADER[:3]:
            await stream.send_all(frame(BINARY, bytes([octet])))
        await stream.send_all(frame(BINARY, HEADER[3:5], fin=False) + frame(PING) + frame(0, HEADER[5:]))
        found = frames_of(await stream.receive_some())
        assert found[-1].payload.startswith(b"\x01\0\0")  # connection.start, whole


async def test_each_write_is_one_message_of_whole_amqp_frames() -> None:
    async with served() as broker:
        stream = await dial(broker)
        client = Client(WebSocketStream(stream))
        await client.connect()
        await client.open_channel()
        await client.declare("q")
        for number in range(300):
            await broker.publish("", "q", b"%d" % number * 100)
        await client.stream.send_all(consume())
        found = b""
        while found.count(b"\x00\x3c\x00\x3c") < 300:
            found += await stream.receive_some()
        messages = frames_of(found)
        assert len(messages) < 10
        for message in messages:
            assert is_whole(message.payload)


def consume() -> bytes:
    arguments = b"\0\0\x01q\x01c\x02\0\0\0\0"
    return b"\x01\0\x01" + (4 + len(arguments)).to_bytes(4) + b"\0\x3c\0\x14" + arguments + b"\xce"


def is_whole(data: bytes) -> bool:
    """Return whether octets are whole frames of AMQP."""
    while data:
        size = int.from_bytes(data[3:7]) + 8
        if len(data) < size or data[size - 1] != 0xCE:
            return False
        data = data[size:]
    return True


@pytest.mark.parametrize(
    ("target", "fields", "status"),
    [("/other", (), 404), ("/", ("Origin: http://evil.example",), 403), ("/", ("Content-Length: 1",), 400)],
)
async def test_what_may_not_connect_gets_an_answer_and_a_line_in_the_log(
    target: str, fields: tuple[str, ...], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with served() as broker:
        stream = await dial(broker)
        await stream.send_all(request(*fields, target=target))
        answer = await read_all(stream)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        (line,) = [record for record in caplog.records if record.getMessage() == "WebSocket failed"]
        assert line.fields["reason"].startswith(f"{status}, ")  # type: ignore[attr-defined]
        assert not broker.endpoints.children[broker.listening[0].name].actor.children  # type: ignore[attr-defined]


async def test_page_of_an_allowed_origin_connects() -> None:
    async with served(WebSocket(path="/amqp", allow_origins=("https://example.org",))) as broker:
        url, page = url_of(broker, "/amqp"), [(b"Origin", b"https://example.org")]
        async with open_websocket_url(url, extra_headers=page) as connection:
            await connection.send_message(HEADER)
            assert b"triomq" in await connection.get_message()
        stream = await dial(broker)
        await stream.send_all(request("Origin: http://example.org", target="/amqp"))
        answer = await read_all(stream)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"allow_origins" in answer


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, HEADER), 1003),
        (frame(BINARY, HEADER, mask=None), 1002),
        (frame(BINARY, HEADER, reserved=4), 1002),
        (frame(PING, bytes(126)), 1002),
        (frame(BINARY, length=1 << 40), 1009),
        (frame(BINARY, length=2000), 1009),
    ],
)
async def test_bad_frame_closes_its_connection_alone_and_the_peer_reads_why(
    data: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with served(WebSocket(max_frame_size=1024)) as broker:
        other = Client(WebSocketStream(await dial(broker)))
        await other.connect()
        stream = await shake_hands(broker)
        await stream.send_all(data + bytes(100_000))  # unread octets must not reset the connection
        (close,) = frames_of(await read_all(stream))
        assert (close.opcode, close.code) == (CLOSE, code)
        assert "WebSocket failed" in [record.getMessage() for record in caplog.records]
        await other.open_channel()


async def test_rights_and_wrong_passwords_are_the_same_as_over_tcp() -> None:
    users = {"reader": User("secret", permissions={"*": Permission("^$", "^$", ".*")})}
    async with served(users=users) as broker:
        client = Client(WebSocketStream(await dial(broker)), login=plain("reader", "wrong"))
        with pytest.raises(AssertionError):
            await client.connect()
        client = Client(WebSocketStream(await dial(broker)), login=plain("reader", "secret"))
        await client.connect()
        await client.open_channel()
        with pytest.raises(AssertionError, match="403"):
            await client.declare("q")


@pytest.mark.parametrize("said", [b"", b"GET / HT", request()[:-2]])
async def test_client_that_never_finishes_the_handshake_is_cut_off(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triomq.endpoints.base.stream_listener._HANDSHAKE", 0.1)
    async with served() as broker:
        stream = await dial(broker)
        if said:
            await stream.send_all(said)
        assert await read_all(stream) == b""


async def test_client_that_shakes_hands_and_says_nothing_of_amqp_is_cut_off_by_amqp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as broker:
        await shake_hands(broker)
        actor = broker.endpoints.children[broker.listening[0].name].actor
        (connection,) = actor.children.values()  # type: ignore[attr-defined]
        assert connection.actor.due_at() < trio.current_time() + 60


async def test_closed_connection_ends_with_1000_and_a_drained_one_with_1001() -> None:
    async with served() as broker:
        gone = WebSocketStream(await dial(broker))
        client = Client(gone)
        await client.connect()
        await gone.send_all(b"no AMQP at all, so that the broker ends it")
        while await gone.receive_some():
            pass
        assert gone.closed_with == 1000
        drained = WebSocketStream(await dial(broker))
        client = Client(drained)
        await client.connect()
        await client.open_channel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.listening[0].aclose)
            assert (await client.closed())[0] == 320
            while await drained.receive_some():
                pass
            assert drained.closed_with == 1001


async def test_client_that_closes_in_order_is_answered_by_a_close() -> None:
    async with served() as broker:
        async with open_websocket_url(url_of(broker)) as foreign:
            client = Client(Foreign(foreign))
            await client.connect()
            await client.leave()
        assert isinstance(foreign.closed, CloseReason)
        assert foreign.closed.code == 1000


async def test_client_that_reads_nothing_holds_up_nobody() -> None:
    async with served() as broker:
        await broker.declare_queue("q", durable=False)
        lazy = await dial(broker)
        client = Client(WebSocketStream(lazy))
        await client.connect()
        await client.open_channel()
        await client.stream.send_all(consume())
        for _ in range(200):
            await broker.publish("", "q", bytes(100_000))
        quick = Client(WebSocketStream(await dial(broker)))
        await quick.connect()
        await quick.open_channel()
        got = await quick.get("q")
        assert got is not None
        assert len(got.body) == 100_000
        left = (await broker.queue("q").statistics()).ready
        assert left > 100  # they wait in their queue, not in buffers
        await quick.leave()


async def test_websocket_goes_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert("ada", common_name="ada").configure_cert(context)
    tls = TLS(*(str(tmp_path / name) for name in ("certificate.pem", "key.pem", "authority.pem")))
    config = AMQP(host="127.0.0.1", port=0, tls=tls, websocket=WebSocket())
    with trio.fail_after(60):
        async with open_broker(config, users={"ada": User("secret")}) as broker:
            port = broker.listening[0].port
            secure = trio.SSLStream(await dial(broker), context, server_hostname="localhost")
            await secure.send_all(request() + frame(BINARY, HEADER))
            found = b""
            while b"EXTERNAL" not in found:  # by the certificate below
                found += await secure.receive_some()
            await secure.send_all(frame(TEXT, b"hello"))
            (close,) = frames_of(await secure.receive_some())
            assert close.code == 1003
            assert await secure.receive_some() == b""  # close_notify, else this would be an error
            await secure.aclose()
            assert config.client_url(f"localhost:{port}", "ada:x") == f"wss://ada:x@localhost:{port}/"
            assert config.describe() == "AMQP 0-9-1 over WebSocket on 127.0.0.1:0 with TLS"


async def test_broker_ends_while_clients_shake_hands() -> None:
    async with served() as broker:
        stream = await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port)
        await stream.send_all(b"GET /")
    with trio.fail_after(60):
        try:
            assert await stream.receive_some() == b""
        except trio.BrokenResourceError:
            pass
    await stream.aclose()


async def test_websocket_listens_on_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with trio.fail_after(60):
        async with open_broker(AMQP(path=path, websocket=WebSocket())):
            client = Client(WebSocketStream(await trio.open_unix_socket(path)))
            await client.connect()
            await client.leave()


def test_the_port_is_none_of_those_for_tcp() -> None:
    websocket, tls = WebSocket(), TLS("certificate.pem")
    assert (AMQP(websocket=websocket).port, AMQP(websocket=websocket, tls=tls).port) == (15670, 15669)
    assert AMQP(websocket=websocket, port=80).port == 80


def test_libraries_for_websocket_are_loaded_by_their_users_alone() -> None:
    program = (
        "import sys, trio, triomq\n"
        "from triomq.clients import open_amqp\n"
        "async def main():\n"
        "    async with triomq.open_broker(triomq.AMQP(port=0)) as broker:\n"
        "        async with open_amqp(f'amqp://127.0.0.1:{broker.listening[0].port}'):\n"
        "            triomq.AMQP(websocket=triomq.WebSocket())\n"
        "trio.run(main)\n"
        "print([name for name in sys.modules if name in ('wsproto', 'h11', 'trio_websocket')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_websocket_is_configured_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "triomq.toml"
    path.write_text(
        '[[endpoints]]\ntype = "amqp"\n[[endpoints]]\ntype = "amqp"\n'
        '[endpoints.websocket]\npath = "/amqp"\nallow_origins = ["https://example.org"]\n',
        encoding="utf-8",
    )
    wanted = AMQP(websocket=WebSocket(path="/amqp", allow_origins=("https://example.org",)))
    assert load_config(path, {}).endpoints == (AMQP(), wanted)
    moved = load_config(path, {}, options={"websocket": 4000}).endpoints
    assert [endpoint.port for endpoint in moved] == [5672, 4000]  # type: ignore[attr-defined]
    added = load_config(None, {}, options={"websocket": 4000}).endpoints
    assert added == (AMQP(), AMQP(port=4000, websocket=WebSocket()))
    path.write_text('[[endpoints]]\ntype = "amqp"\nwebsocket = {allow_origins = ["example.org"]}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"allow_origins: found 'example.org'"):
        load_config(path, {})
