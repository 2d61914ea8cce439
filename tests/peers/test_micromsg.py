"""Plain sockets that speak MicroMsg2, with a broker in a process of its own: old and new clients, and kill -9."""

import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika
import pytest
import trio

from peers.micromsg_peer import (
    DEADLINE,
    ERROR,
    EXTENSION,
    Frame,
    Handshake,
    MicroMsgPeer,
    Reader,
    decode_properties,
    encode,
    encode_handshake,
    following,
)
from peers.served import Served, open_served
from peers.sharp_messaging import LARGEST, TYPE, WINDOW, ProgramDied, SharpClient, SharpServer, SharpSide
from ports import free_port
from triomq.clients import HandshakeExtension, Reconnect, open_micromsg
from triomq.errors import RemoteProtocolError

OPTIONS = (
    "dynamic_topics = true",
    'default_destination = "queue/default"',
    'pushed = { reader = "queue/pushed" }',
)
ALL = b"batch-ack:max-count=1000;pub-sub;x-reply"


def test_peer_writes_what_the_golden_vectors_have() -> None:
    """The peers are to be independent of our engine, so they need something of their own to hold on to."""
    assert (
        encode_handshake(Handshake(b"hulk", b"json;dotnet", b"")).hex()
        == "0100000468756c6b000b6a736f6e3b646f746e65740000"
    )
    vectors = {
        Frame(0, 1, b"queue", b"a:N10;", b"hi"): "0000010571756575650006613a4e31303b026869",
        Frame(0, 1, payload=bytes(256)): "08000100000000000100" + "00" * 256,
        Frame(EXTENSION, 3, payload=b"\0\4"): "0203020004",
        Frame(EXTENSION, 1, payload=TYPE): "02015a" + TYPE.hex(),
        Frame(ERROR, payload=b"no thanks"): "04096e6f207468616e6b73",
    }
    assert {frame: encode(frame).hex() for frame in vectors} == vectors
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"".join(map(encode, vectors)))
        reader = Reader(ours)
        assert [reader.frame() for _ in vectors] == list(vectors)
    assert [following(number) for number in (0, 1, 65534, 65535)] == [1, 2, 65535, 1]


class Place:
    """A broker with MicroMsg2 at a port that stays the same.

    Args:
        folder: Where its configuration and its data are.
        options: Further lines of the configuration of its endpoint.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self._file = folder / "triomq.toml"
        lines = [
            f'data_dir = "{folder / "data"}"',
            '[[endpoints]]\ntype = "amqp"',
            f'[[endpoints]]\ntype = "micromsg"\nport = {self.port}\nuser = "guest"',
            *options,
        ]
        self._file.write_text("\n".join(lines) + "\n")

    def open(self) -> "contextmanager[Served]":
        return open_served(str(self._file))


class Broker:
    """A broker that runs, and a connection over AMQP by which queues are declared."""

    def __init__(self, place: Place, served: Served) -> None:
        self.port = place.port
        self.process = served.process
        self.url = served.url

    def declare(self, queue: str) -> bytes:
        """Declare a durable queue, and return how MicroMsg2 calls it."""
        with pika.BlockingConnection(pika.URLParameters(self.url)) as connection:
            connection.channel().queue_declare(queue, durable=True)
        return f"queue/{queue}".encode()

    def count(self, queue: str) -> int:
        with pika.BlockingConnection(pika.URLParameters(self.url)) as connection:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    place = Place(tmp_path_factory.mktemp("micromsg"), *OPTIONS)
    with place.open() as served:
        broker = Broker(place, served)
        broker.declare("default")
        broker.declare("pushed")
        yield broker


# Clients that keep to the specification


def test_publisher_without_acks_is_heard(broker: Broker, name: str) -> None:
    queue = broker.declare(name)
    with MicroMsgPeer(broker.port) as publisher, MicroMsgPeer(broker.port, ALL) as reader:
        assert reader.ask(b"subscribe", destination=queue.decode())[0] == 200
        for number in range(500):
            publisher.publish(queue, b"%d" % number, number=number)
        found = reader.read(500)
        assert [frame.payload for frame in found] == [b"%d" % number for number in range(500)]
        assert [frame.number for frame in found] == list(range(1, 501))
        assert {frame.destination for frame in found} == {queue}
        assert decode_properties(found[7].properties)["number"] == "N7"
        reader.ack(500)


@pytest.mark.parametrize(("acks", "window"), [(b"ack", 1), (b"batch-ack:max-count=7", 7), (b"batch-ack", 10)])
def test_windows_hold_in_both_directions(broker: Broker, name: str, acks: bytes, window: int) -> None:
    queue = broker.declare(name)
    with MicroMsgPeer(broker.port, acks + b";pub-sub;x-reply") as peer:
        for number in range(40):
            peer.publish(queue, b"%d" % number)
            peer.wait_acked(window - 1)
        peer.wait_acked()
        assert peer.ask(b"subscribe", destination=queue.decode())[0] == 200
        numbers = []
        while len(numbers) < 40:
            for frame in peer.read(min(window, 40 - len(numbers))):
                numbers.append(int(frame.payload))
            peer.command(b"unsubscribe", destination="topic/nothing")  # whose answer comes behind all that was sent
            assert peer.reader.frame().kind == EXTENSION
            peer.ack(len(numbers))
    assert numbers == list(range(40))


def test_subscriber_gets_what_its_filter_lets_through(broker: Broker, name: str) -> None:
    topic = f"topic/{name}"
    conditions = "priority>=N5;customer<Tad;note~Tspam"
    with MicroMsgPeer(broker.port, ALL) as reader, MicroMsgPeer(broker.port, b"batch-ack") as publisher:
        assert reader.ask(b"subscribe", destination=topic, filter=conditions, id="s1")[0] == 200
        for number, (priority, customer, note) in enumerate(
            [(5, "ada", "tea"), (4, "ada", "tea"), (9, "adam", "spam!"), (9, "eve", "tea"), (6, "adelaide", "")]
        ):
            publisher.publish(topic.encode(), b"%d" % number, priority=priority, customer=customer, note=note)
        publisher.publish(topic.encode(), b"5", priority=5)
        publisher.wait_acked()
        assert [frame.payload for frame in reader.read(2)] == [b"0", b"4"]
        assert reader.ask(b"subscribe", destination=topic, filter="priority<=Tfive", id="s2")[0] == 400
        assert reader.ask(b"unsubscribe", id="s1")[0] == 200
        publisher.publish(topic.encode(), b"6", priority=9, customer="ada", note="")
        publisher.wait_acked()
        assert reader.ask(b"unsubscribe", destination="topic/nothing")[0] in (200, 404)


def test_messages_that_were_not_acked_come_again_to_the_next_one(broker: Broker, name: str) -> None:
    queue = broker.declare(name)
    with MicroMsgPeer(broker.port, ALL) as first:
        for number in range(5):
            first.publish(queue, b"%d" % number)
        first.wait_acked()
        assert first.ask(b"subscribe", destination=queue.decode())[0] == 200
        first.read(5)
        first.ack(2)
        assert first.ask(b"unsubscribe", destination=queue.decode())[0] == 200
        assert first.ask(b"subscribe", destination=queue.decode())[0] == 200
        again = first.read(3)
        assert [frame.payload for frame in again] == [b"2", b"3", b"4"]
        assert {decode_properties(frame.properties)["redelivered"] for frame in again} == {"N1"}
    with MicroMsgPeer(broker.port, ALL) as second:
        assert second.ask(b"subscribe", destination=queue.decode())[0] == 200
        assert [frame.payload for frame in second.read(3)] == [b"2", b"3", b"4"]


def test_sequence_numbers_wrap_in_both_directions(broker: Broker, name: str) -> None:
    queue = broker.declare(name)
    with MicroMsgPeer(broker.port, b"batch-ack:max-count=1000;pub-sub;x-reply") as peer:
        assert peer.ask(b"subscribe", destination=queue.decode())[0] == 200
        last = 0
        for start in range(0, 66_000, 500):
            for _ in range(500):
                peer.publish(queue, b"")
            found = 0
            while peer.unacked or found < 500:
                frame = peer.reader.frame()
                if peer.is_ack(frame):
                    peer.take_ack(frame)
                else:
                    assert frame.number == following(last)
                    last, found = frame.number, found + 1
            assert last == (start + 499) % 65535 + 1
            peer.ack(last)


# SharpMessaging of January 2015


def sharp_publish(client: SharpClient, count: int, destination: bytes) -> None:
    for number in range(count):
        client.wait_acked(WINDOW - 1)
        client.send(b"%d" % number, destination)
    client.wait_acked()


def test_sharp_messaging_publishes_and_never_sends_anything_twice(broker: Broker, name: str) -> None:
    queue = broker.declare(name)
    with SharpClient(broker.port) as client, MicroMsgPeer(broker.port, ALL) as reader:
        sharp_publish(client, 95, queue)  # the last five are acked by the time alone
        assert client.repeated == 0
        assert client.sent == list(range(1, 96))
        assert reader.ask(b"subscribe", destination=queue.decode())[0] == 200
        found = [frame for start in range(0, 95, 5) for frame in (reader.read(5), reader.ack(start + 5))[0]]
        assert [frame.payload for frame in found] == [b"%d" % number for number in range(95)]
        assert {decode_properties(frame.properties)["type"][0] for frame in found} == {"T"}


def test_sharp_messaging_that_gives_no_destination_reaches_the_default_one(broker: Broker) -> None:
    before = broker.count("default")
    with SharpClient(broker.port) as client:
        sharp_publish(client, WINDOW, b"")
    assert broker.count("default") == before + WINDOW


def test_sharp_messaging_is_sent_only_what_it_can_read(broker: Broker) -> None:
    with MicroMsgPeer(broker.port, ALL) as publisher:
        for number in range(30):
            body = bytes(LARGEST + 1) if number == 13 else bytes(LARGEST) if number == 14 else b"%d" % number
            publisher.publish(b"queue/pushed", body, number=number, customer="Ada", type="System.String")
        publisher.wait_acked()
    with SharpClient(broker.port, identity=b"reader") as client:
        found = client.read(25)
        assert found[13].payload == bytes(LARGEST)
        assert {message.type for message in found} == {b"System.String"}
        assert {message.destination for message in found} == {b"queue/pushed"}
    with SharpClient(broker.port, identity=b"reader") as client:
        again = client.read(9)  # five that were left in the middle of a window, and four new ones
        assert [int(message.payload) for message in again] == list(range(21, 30))


@pytest.mark.parametrize("required", [b"ack:MessagesPerAck=10,AckExpireTime=1000", b"json", b"dotnet", b""])
def test_sharp_messaging_finds_again_what_it_requires(broker: Broker, required: bytes) -> None:
    with SharpClient(broker.port, required, b"json") as client:
        client.send(b"hello", b"default")
        client.wait_acked() if b"ack" in required else None


def test_sharp_messaging_is_told_what_is_not_known_here(broker: Broker) -> None:
    with pytest.raises(ConnectionError, match=r"501 .*protobuf"):
        SharpClient(broker.port, b"protobuf", b"")


# Our client with SharpMessaging's server of 2015


class SharpPlace:
    """A port at which a server of SharpMessaging waits for one client after the other."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1]
        self.url = f"micromsg://127.0.0.1:{port}/?peer=sharpmessaging&identity=triomq&window=10"

    async def accept(self, required: bytes = b"") -> SharpServer:
        return await trio.to_thread.run_sync(lambda: SharpServer(self.listener.accept()[0], required))


@pytest.fixture
def sharp() -> Iterator[SharpPlace]:
    place = SharpPlace()
    with place.listener:
        yield place


async def test_our_client_publishes_to_sharp_messaging(sharp: SharpPlace) -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def publish() -> None:
                async with open_micromsg(sharp.url) as micromsg, micromsg.open_pipeline() as pipeline:
                    for number in range(100):
                        await pipeline.publish("numbers", b"%d" % number, {"number": number, "half": number / 2})

            with await sharp.accept() as server:
                found = await trio.to_thread.run_sync(server.read, 100)
        assert [message.payload for message in found] == [b"%d" % number for number in range(100)]
        assert [message.number for message in found] == list(range(1, 101))


async def test_our_client_reads_what_sharp_messaging_sends_and_acks_whole_windows(sharp: SharpPlace) -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            bodies = []

            @nursery.start_soon
            async def read() -> None:
                extensions = (HandshakeExtension("json"), HandshakeExtension("dotnet"))
                async with (
                    open_micromsg(sharp.url, extensions=extensions) as micromsg,
                    micromsg.read_pushed() as pushed,
                ):
                    async for message in pushed:
                        with message:
                            bodies.append(message.body)
                        assert message.properties["type"] == TYPE.decode()

            with await sharp.accept(b"ack:MessagesPerAck=10,AckExpireTime=1000") as server:

                def send() -> None:
                    for number in range(25):
                        server.wait_acked(WINDOW - 1)
                        server.send(b"%d" % number)
                    server.wait_acked()

                await trio.to_thread.run_sync(send)
                assert server.repeated == 0
                nursery.cancel_scope.cancel()
        assert bodies == [b"%d" % number for number in range(25)]


async def test_our_client_refuses_to_send_what_sharp_messaging_dies_of(sharp: SharpPlace) -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def publish() -> None:
                async with open_micromsg(sharp.url) as micromsg:
                    with pytest.raises(Exception, match=f"takes {LARGEST} at most"):
                        await micromsg.publish("numbers", bytes(LARGEST + 1))
                    with pytest.raises(Exception, match="knows no subscriptions"):
                        async with micromsg.subscribe("topic/numbers"):
                            pass
                    await micromsg.publish("numbers", bytes(LARGEST))

            with await sharp.accept() as server:
                (message,) = await trio.to_thread.run_sync(server.read, 1)
                await trio.to_thread.run_sync(server.ack)
        assert len(message.payload) == LARGEST


def test_what_sharp_messaging_dies_of_is_noticed_here() -> None:
    """Otherwise the tests above would prove nothing."""
    fatal = {
        "two properties": Frame(0, 1, b"q", b"a:N1;b:N2;", b""),
        "a large payload": Frame(0, 1, b"q", b"", bytes(LARGEST + 1)),
        "a command": Frame(1, payload=b"subscribe;destination=q"),
        "a part": Frame(16, 1, b"q", b"", b"half"),
        "an error": Frame(4, payload=b"400 no"),
        "a foreign extension": Frame(2, 9, payload=b""),
        "a large ack": Frame(2, 3, payload=bytes(256)),
        "a frame of json": Frame(2, 2, payload=b""),
    }
    for what, frame in fatal.items():
        ours, theirs = socket.socketpair()
        with SharpSide(ours) as side, theirs:
            side.extensions = [b"dotnet", b"json", b"ack"]
            theirs.sendall(encode(frame))
            with pytest.raises(ProgramDied):
                print(what, side.read(1))


async def test_our_client_tells_a_server_that_breaks_a_rule(sharp: SharpPlace) -> None:
    def serve() -> Frame:
        connection, _ = sharp.listener.accept()
        with connection:
            connection.settimeout(DEADLINE)
            reader = Reader(connection)
            reader.handshake()
            connection.sendall(encode_handshake(Handshake(b"server", b"", b"")))
            reader.handshake()
            connection.sendall(b"\xff")
            return reader.frame()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            told = list[Frame]()

            @nursery.start_soon
            async def run() -> None:
                told.append(await trio.to_thread.run_sync(serve))

            async with open_micromsg(sharp.url.partition("?")[0]) as micromsg, micromsg.read_pushed() as pushed:
                with pytest.raises(RemoteProtocolError, match="does not keep to MicroMsg2: 400"):
                    await anext(pushed)
        assert told[0].kind == ERROR
        assert told[0].payload.startswith(b"400 ")


# Kill -9


def test_nothing_that_was_acked_is_lost_by_kill_9(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with ExitStack() as stack:
        broker = Broker(place, stack.enter_context(place.open()))
        queue = broker.declare("q")
        with MicroMsgPeer(place.port, b"batch-ack:max-count=500") as publisher:
            bodies = {publisher.publish(queue, b"%d" % number): b"%d" % number for number in range(500)}
            while len(bodies) < 3000:
                publisher.wait_acked(400)
                for _ in range(100):
                    body = b"%d" % len(bodies)
                    bodies[publisher.publish(queue, body)] = body
            while len(publisher.unacked) > 250:
                publisher.take_ack(publisher.reader.frame())
            broker.process.send_signal(signal.SIGKILL)
            broker.process.wait()
            acked = {body for number, body in bodies.items() if number not in publisher.unacked}
    with place.open() as served, MicroMsgPeer(place.port, ALL) as reader:
        count = Broker(place, served).count("q")
        assert reader.ask(b"subscribe", destination="queue/q")[0] == 200
        found = []
        while len(found) < count:
            found += reader.read(1)
            reader.ack(found[-1].number)
        assert acked <= {frame.payload for frame in found}
        assert len({frame.payload for frame in found}) == count


async def test_our_client_goes_on_behind_kill_9_and_all_that_it_published_is_there(tmp_path: Path) -> None:
    place, count, found = Place(tmp_path), 5000, set[int]()
    url = f"micromsg://127.0.0.1:{place.port}"
    with trio.fail_after(100), ExitStack() as stack:
        broker = Broker(place, stack.enter_context(place.open()))
        broker.declare("q")
        async with open_micromsg(url, reconnect=Reconnect(max_delay=0.1)) as micromsg:
            async with micromsg.open_pipeline() as pipeline:
                for number in range(count):
                    await pipeline.publish("queue/q", b"%d" % number)
                    if number == count // 2:
                        broker.process.send_signal(signal.SIGKILL)
                        broker.process.wait()
                        stack.enter_context(place.open())
            async with micromsg.subscribe("queue/q") as messages:
                async for message in messages:
                    message.accept()
                    found.add(int(message.body))
                    if len(found) == count:
                        break
            assert found == set(range(count))
            assert micromsg.statistics().reconnects == 1


def test_ack_frame_of_the_broker_has_two_octets(broker: Broker, name: str) -> None:
    queue = broker.declare(name)
    with MicroMsgPeer(broker.port, b"ack") as peer:
        peer.publish(queue, b"x")
        frame = peer.reader.frame()
        assert frame == Frame(EXTENSION, 1, payload=struct.pack(">H", 1))
