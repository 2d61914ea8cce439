"""Plain pyzmq sockets that speak MTL, with a broker in a process of its own: all kinds of clients, and kill -9."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import zmq
from scramp import ScramClient

from peers.mtl_peer import Command, ControlPeer, DataPeer, decode, encode, open_proxy
from peers.served import Served, open_served
from ports import free_port
from triomq.clients import BasicProperties, Reconnect, open_mtl


def test_peer_writes_what_the_golden_vectors_have() -> None:
    """The peer is to be independent of our engine, so it needs something of its own to hold on to."""
    content = Command("content", 1, "resource", {"content-type": "text/plain"}, body=b"x")
    vectors = {
        Command("lease", 1, "abc123"): "01000000000000000106616263313233",
        Command("summon", 2, "resource"): "030000000000000002087265736f75726365",
        Command("confirm", 7, multiple=True): "06000000000000000701",
        Command("reject", 8, recycle=True): "0700000000000000080001",
        Command("ping"): "08",
        Command("pong"): "09",
    }
    assert {command: encode(command)[0].hex() for command in vectors} == vectors
    table = "0000001c0c636f6e74656e742d74797065530000000a746578742f706c61696e"
    assert encode(content)[0].hex() == "050000000000000001087265736f75726365" + table
    assert decode(encode(content)) == content


class Place:
    """A broker with MTL at a port that stays the same.

    Args:
        folder: Where its configuration and its data are.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._file = folder / "triomq.toml"
        self._file.write_text(
            f'data_dir = "{folder / "data"}"\n'
            '[[endpoints]]\ntype = "amqp"\n'
            f'[[endpoints]]\ntype = "mtl"\nport = {self.port}\ndata_port = 0\n'
        )

    def open(self) -> "contextmanager[Served]":
        return open_served(str(self._file))


class Client:
    """Peers of one context."""

    def __init__(self, address: str) -> None:
        self.context: zmq.Context[Any] = zmq.Context()
        self.address = address
        self._sockets: list[zmq.Socket[bytes]] = []

    def close(self) -> None:
        for socket in self._sockets:
            socket.close(0)
        self.context.term()

    def control(self, kind: str = "REQ", address: str = "") -> ControlPeer:
        peer = ControlPeer(self.context, address or self.address, kind)
        self._sockets.append(peer.socket)
        return peer

    def flow(self, control: ControlPeer, direction: str, *resources: str, **fields: object) -> DataPeer:
        """Return a data flow with a lease."""
        leased = control.done(f"Connection.{direction}", resources=resources, **fields)
        peer = DataPeer(self.context, f"tcp://127.0.0.1:{leased['port']}")
        self._sockets.append(peer.socket)
        assert peer.ask("lease", leased["lease"]) == "200"
        return peer


@contextmanager
def open_client(place: Place) -> Iterator[Client]:
    client = Client(f"tcp://127.0.0.1:{place.port}")
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("mtl"))
    with place.open():
        yield place


@pytest.fixture
def client(place: Place) -> Iterator[Client]:
    with open_client(place) as client:
        yield client


@pytest.mark.parametrize("kind", ["REQ", "REQ_CORRELATE", "DEALER"])
@pytest.mark.parametrize("confirm", ["none", "full"])
def test_contents_go_from_a_writer_to_a_reader(client: Client, kind: str, confirm: str, name: str) -> None:
    control = client.control(kind).work_with("queue")
    assert control.done("Queue.Create", name=name)["created"]
    writer = client.flow(control, "Writer", name, confirm=confirm)
    reader = client.flow(control, "Reader", name, confirm=confirm)
    assert reader.ask("summon", name) == "200"
    for number in range(500):
        writer.write(name if number % 2 else "", b"%d" % number, content_type="text/plain", number=number)
    contents = reader.read(500)
    assert [content.body for content in contents] == [b"%d" % number for number in range(500)]
    assert [content.sequence for content in contents] == list(range(1, 501))
    assert contents[7].properties == {"content-type": "text/plain", "number": 7}
    if confirm == "full":
        writer.wait_confirmed()
        reader.send(Command("confirm", 498, multiple=True))
        reader.send(Command("reject", 499, recycle=True))
        (again,) = reader.read(1)
        assert (again.body, (again.properties or {})["redelivered"]) == (b"498", True)
        reader.send(Command("confirm", again.sequence, multiple=True))
    assert reader.ask("dismiss", name) == "200"
    assert reader.is_silent()
    assert control.done("Queue.Stats", name=name)["messages"] == 0


def test_clients_behind_a_proxy_have_a_session_each(client: Client, name: str) -> None:
    with open_proxy(client.address) as proxy:
        first, second = client.control("REQ", proxy), client.control("REQ_CORRELATE", proxy)
        first.work_with("queue")
        assert second.ask("Queue.Create", name=name).code == 401
        second.work_with("queue")
        for number, control in enumerate((first, second)):
            control.done("Queue.Create", name=f"{name}.{number}")
            writer = client.flow(control, "Writer", f"{name}.{number}", confirm="full")
            writer.write("", b"through the proxy came the lease alone")
            writer.wait_confirmed()
        names = {queue["name"] for queue in second.done("Queue.List")["queues"]}
        assert {f"{name}.0", f"{name}.1"} <= names


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_by_hand_is_let_in_and_a_wrong_password_is_not(client: Client, mechanism: str) -> None:
    control = client.control()
    reply = control.ask("Connection.Open", protocol={"name": "MTL", "version": 1})
    assert (reply.code, mechanism in reply.body["mechanisms"]) == (401, True)
    assert control.answer_challenges(mechanism, ScramClient([mechanism], "guest", "wrong")).code == 401
    assert control.answer_challenges(mechanism, ScramClient([mechanism], "guest", "guest")).code == 201


def test_test_profile_copies_contents_of_all_writers_to_all_readers(client: Client) -> None:
    control = client.control().work_with("test")
    assert control.ask("Connection.Reader", resources=["resource"], confirm="full").code == 501
    readers = [client.flow(control, "Reader", "resource", confirm="none") for _ in range(2)]
    assert [reader.ask("summon", "resource") for reader in readers] == ["200", "200"]
    writers = [client.flow(control, "Writer", "resource") for _ in range(2)]
    for writer in writers:
        for number in range(3):
            writer.write("resource", b"%d" % number)
    for reader in readers:
        assert sorted(content.body for content in reader.read(6)) == [b"0", b"0", b"1", b"1", b"2", b"2"]


def test_nothing_that_was_confirmed_is_lost_by_kill_9(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with ExitStack() as stack:
        served = stack.enter_context(place.open())
        client = stack.enter_context(open_client(place))
        control = client.control().work_with("queue")
        control.done("Queue.Create", name="q", durable=True)
        writer = client.flow(control, "Writer", "q", confirm="full")
        bodies = {writer.write("", b"%d" % number, delivery_mode=2): b"%d" % number for number in range(3000)}
        while len(writer.unconfirmed) > 1000:
            assert writer.receive().kind == "confirm"
        served.process.send_signal(signal.SIGKILL)
        served.process.wait()
        confirmed = {body for number, body in bodies.items() if number not in writer.unconfirmed}
    with place.open(), open_client(place) as client:
        control = client.control().work_with("queue")
        reader = client.flow(control, "Reader", "q", confirm="full")
        count = control.done("Queue.Stats", name="q")["messages"]
        assert reader.ask("summon", "q") == "200"
        found = []
        while len(found) < count:
            found.append(reader.receive())
            reader.send(Command("confirm", found[-1].sequence))
        assert confirmed <= {content.body for content in found}
        assert len({content.body for content in found}) == count


async def test_our_client_goes_on_behind_kill_9_and_all_that_it_published_is_there(tmp_path: Path) -> None:
    place, count, found = Place(tmp_path), 5000, set[int]()
    persistent = BasicProperties(delivery_mode=2)
    url = f"mtl://guest:guest@127.0.0.1:{place.port}"
    with trio.fail_after(100), ExitStack() as stack:
        served = stack.enter_context(place.open())
        async with open_mtl(url, reconnect=Reconnect(max_delay=0.1)) as mtl:
            await mtl.call("Queue.Create", {"name": "q"})
            async with mtl.open_writer("q") as writer, writer.open_pipeline() as pipeline:
                for number in range(count):
                    await pipeline.publish(b"%d" % number, properties=persistent)
                    if number == count // 2:
                        served.process.send_signal(signal.SIGKILL)
                        served.process.wait()
                        stack.enter_context(place.open())
            async with mtl.open_reader("q", prefetch=1000) as reader:
                async for delivery in reader:
                    delivery.accept()
                    found.add(int(delivery.body))
                    if len(found) == count:
                        break
            assert found == set(range(count))
            assert mtl.statistics().sessions == 2
