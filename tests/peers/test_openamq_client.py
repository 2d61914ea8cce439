"""What OpenAMQ's client says in direct mode, octet by octet, in its order: it aborts at any refusal.

It logs in as with any broker, declares with auto-delete whatever it declares, leases its queue before it binds or
consumes it, and its exchange at the first publish.
"""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from pamqp import commands

from peers.raw import DEADLINE, METHOD, RawPeer, raw_frame

# Frames of its, as they were seen on the wire; a name's length is in the octet before it.
DECLARE_EXCHANGE = bytes.fromhex("0028000a0000") + b"\x0aamq.direct\x06direct" + bytes.fromhex("0400000000")
DECLARE_QUEUE = bytes.fromhex("0032000a0000000c00000000")
PUT = bytes.fromhex("f03c000a0a616d712e646972656374")
PUT_OK, GET, GET_OK = (bytes.fromhex(octets) for octets in ("f03c000b", "f03c0014", "f03c0015"))
HEADER = bytes.fromhex("414d51500a010001")

# To amq.direct with nine properties, "hello"; the key is the queue's name, so the size is not always this one.
PROPERTIES = (
    bytes.fromhex("bec4")
    + b"\x0atext/plain"
    + bytes.fromhex("0000000f016e49000000070173530000000176")
    + b"\x02\x05\x04corr\x07reply.q\x05mid-1"
    + bytes.fromhex("00000000499602d2")
    + b"\x03snd"
)
NOWHERE = bytes.fromhex("0000001c0a616d712e646972656374076e6f7768657265000002000003726574")


def short(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


def message(key: str, body: bytes) -> bytes:
    rest = b"\x0aamq.direct" + short(key) + PROPERTIES + b"\0" + len(body).to_bytes(3, "big") + body
    return len(rest).to_bytes(4, "big") + rest


class Direct:
    """One direct connection, which waits for each answer and looks at its first three octets."""

    def __init__(self, url: str, lease: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=DEADLINE)
        self._stream = self.socket.makefile("rb")
        for word in (HEADER, short(lease)):
            self.socket.sendall(word)
            answer = self.take(self.take(1)[0])
            assert answer[:3] == b"200", answer

    def close(self) -> None:
        self._stream.close()
        self.socket.close()

    def take(self, count: int) -> bytes:
        found = self._stream.read(count)
        assert len(found) == count, "the broker has ended the stream"
        return found

    def take_message(self) -> bytes:
        while (size := self.take(4)) == bytes(4):
            pass
        return size + self.take(int.from_bytes(size, "big"))


@pytest.fixture
def peer(broker_url: str, is_triomq: bool) -> Iterator[RawPeer]:
    if not is_triomq:
        pytest.skip("RabbitMQ has no direct connections")
    with RawPeer(broker_url, channel_max=1) as peer:
        peer.open_channel(1)
        yield peer


def ask(peer: RawPeer, method: bytes, answer: bytes) -> str:
    """Send a method with a name in it; give the name in its answer."""
    peer.socket.sendall(raw_frame(METHOD, 1, method))
    found = peer.read()
    assert found is not None
    assert found.payload.startswith(answer), found
    name = found.payload[len(answer) :]
    return name[1 : 1 + name[0]].decode()


def lease_feed(peer: RawPeer) -> tuple[str, str]:
    """Declare as it does, and lease the queue; give name and lease."""
    peer.socket.sendall(raw_frame(METHOD, 1, DECLARE_EXCHANGE))
    peer.expect(commands.Exchange.DeclareOk)
    queue = ask(peer, DECLARE_QUEUE, bytes.fromhex("0032000b"))
    return queue, ask(peer, GET + short(queue), GET_OK)


def test_its_client_publishes_and_consumes_directly_and_is_refused_nothing(broker_url: str, peer: RawPeer) -> None:
    queue, lease = lease_feed(peer)
    feed = Direct(broker_url, lease)
    peer.call(1, commands.Queue.Bind(queue=queue, exchange="amq.direct", routing_key=queue), commands.Queue.BindOk)
    peer.call(1, commands.Basic.Consume(queue=queue, no_ack=True, exclusive=True), commands.Basic.ConsumeOk)
    sink = Direct(broker_url, ask(peer, PUT, PUT_OK))
    sent = [message(queue, b"hello"), message(queue, b""), message(queue, b"x" * 100_000)]
    sink.socket.sendall(b"".join(sent))
    assert [feed.take_message() for _ in sent] == sent
    sink.socket.sendall(NOWHERE)
    returned = peer.expect(commands.Basic.Return)
    assert (returned.reply_code, returned.exchange, returned.routing_key) == (312, "amq.direct", "nowhere")
    assert peer.read_content() == (b"\0\0", b"ret")
    # It closes its sockets as they are, and then its channel and connection, with this code.
    sink.close()
    feed.close()
    peer.call(1, commands.Channel.Close(100, "No error", 0, 0), commands.Channel.CloseOk)
    peer.call(0, commands.Connection.Close(100, "No error", 0, 0), commands.Connection.CloseOk)


def test_message_over_amqp_reaches_its_feed(broker_url: str, peer: RawPeer) -> None:
    queue, lease = lease_feed(peer)
    feed = Direct(broker_url, lease)
    consumer = commands.Basic.Consume(queue=queue, consumer_tag="c", no_ack=True)
    peer.call(1, consumer, commands.Basic.ConsumeOk)
    with RawPeer(broker_url) as other:
        other.open_channel(1)
        publish = commands.Basic.Publish(exchange="amq.direct", routing_key="elsewhere")
        bind = commands.Queue.Bind(queue=queue, exchange="amq.direct", routing_key="elsewhere")
        peer.call(1, bind, commands.Queue.BindOk)
        header = raw_frame(2, 1, bytes.fromhex("003c00000000000000000005") + PROPERTIES)
        other.send(1, publish)
        other.socket.sendall(header + raw_frame(3, 1, b"hello"))
        assert feed.take_message() == message("elsewhere", b"hello")
    feed.close()


def test_both_lose_nothing_when_the_principal_connection_goes_first(broker_url: str, peer: RawPeer) -> None:
    queue, lease = lease_feed(peer)
    feed = Direct(broker_url, lease)
    peer.call(1, commands.Queue.Bind(queue=queue, exchange="amq.direct", routing_key=queue), commands.Queue.BindOk)
    peer.call(1, commands.Basic.Consume(queue=queue, no_ack=True), commands.Basic.ConsumeOk)
    sink = Direct(broker_url, ask(peer, PUT, PUT_OK))
    peer.call(0, commands.Connection.Close(100, "No error", 0, 0), commands.Connection.CloseOk)
    sink.socket.sendall(message(queue, b"still"))
    assert feed.take_message() == message(queue, b"still")
    sink.close()
    feed.close()
