"""The engine and libzmq, over a socket, in both roles."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import zmq

from protocols.zmtp.wire import client, happened, said, server
from triomq.protocols.zmtp import (
    ErrorReceived,
    Event,
    LoginRequested,
    MessagesReceived,
    Opened,
    TopicCancelled,
    TopicSubscribed,
    ZMTPClientEngine,
    ZMTPEngine,
    ZMTPServerEngine,
)

Make = Callable[[int], "zmq.Socket[bytes]"]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make sockets of libzmq, which give up after a while."""
    made: list[zmq.Socket[bytes]] = []

    def make(kind: int) -> "zmq.Socket[bytes]":
        made.append(context.socket(kind))
        made[-1].rcvtimeo = made[-1].sndtimeo = 10_000
        made[-1].linger = 0
        return made[-1]

    with zmq.Context() as context:
        yield make
        for each in made:
            each.close()


class Wire:
    """An engine at a blocking socket."""

    def __init__(self, engine: ZMTPEngine, connection: socket.socket) -> None:
        self.engine = engine
        self._connection = connection
        self._events: list[Event] = []
        connection.settimeout(10)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def flush(self) -> None:
        if octets := said(self.engine):
            self._connection.sendall(octets)

    def next(self) -> Event:
        """Return the next event; one message at a time."""
        self.flush()
        self._take()
        while not self._events:
            self.engine.receive_data(self._connection.recv(65536))
            self._take()
        return self._events.pop(0)

    def _take(self) -> None:
        for event in happened(self.engine):
            if isinstance(event, MessagesReceived):
                self._events += [MessagesReceived([message]) for message in event.messages]
            else:
                self._events.append(event)
        self.flush()


def listening(connect: Callable[[str], None], engine: ZMTPServerEngine) -> Wire:
    """Return an engine that a socket of libzmq has connected to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        return Wire(engine, listener.accept()[0])


def connecting(bound: "zmq.Socket[bytes]", engine: ZMTPClientEngine) -> Wire:
    """Return an engine that is connected to a socket of libzmq."""
    port = bound.bind_to_random_port("tcp://127.0.0.1")
    return Wire(engine, socket.create_connection(("127.0.0.1", port)))


def test_dealer_is_served(make: Make) -> None:
    dealer = make(zmq.DEALER)
    dealer.setsockopt(zmq.IDENTITY, b"me")
    with listening(dealer.connect, server()) as wire:
        assert wire.next() == Opened("DEALER", b"me", (3, 1))
        sent = [[b"", b"x" * 300], [b"y" * 100_000, b"", b"z"], [b""]]
        for frames in sent:
            dealer.send_multipart(frames)
        assert [wire.next() for _ in sent] == [MessagesReceived([frames]) for frames in sent]
        wire.engine.send_all(sent)
        wire.flush()
        assert [dealer.recv_multipart() for _ in sent] == sent


def test_req_is_served(make: Make) -> None:
    req = make(zmq.REQ)
    with listening(req.connect, server()) as wire:
        assert wire.next() == Opened("REQ", b"", (3, 1))
        req.send(b"question")
        assert wire.next() == MessagesReceived([[b"", b"question"]])
        wire.engine.send([b"", b"answer"])
        wire.flush()
        assert req.recv() == b"answer"


@pytest.mark.parametrize("right", [True, False])
def test_password_of_a_dealer_is_judged(make: Make, right: bool) -> None:
    dealer = make(zmq.DEALER)
    dealer.plain_username, dealer.plain_password = b"ada", b"secret"
    failed = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL  # libzmq 4.3 knows ERROR by a name that it misspells
    monitor = dealer.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | failed)
    monitor.rcvtimeo = 10_000
    engine = server(mechanism="PLAIN")
    with listening(dealer.connect, engine) as wire:
        assert wire.next() == LoginRequested("ada", b"secret")
        if right:
            engine.accept()
            assert wire.next() == Opened("DEALER", b"", (3, 1))
        else:
            engine.refuse()
            wire.flush()
        event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
        assert event == (zmq.EVENT_HANDSHAKE_SUCCEEDED if right else failed)
    monitor.close()
    dealer.disable_monitor()


def test_subscriber_is_served(make: Make) -> None:
    sub = make(zmq.SUB)
    sub.subscribe(b"a.")
    with listening(sub.connect, server(socket_type="XPUB")) as wire:
        assert wire.next() == Opened("SUB", b"", (3, 1))
        assert wire.next() == TopicSubscribed(b"a.")
        assert wire.engine.keep(b"a.")
        wire.engine.send([b"a.b", b"text"])
        wire.flush()
        assert sub.recv_multipart() == [b"a.b", b"text"]
        sub.unsubscribe(b"a.")
        assert wire.next() == TopicCancelled(b"a.")


def test_heartbeats_of_libzmq_are_answered(make: Make) -> None:
    dealer = make(zmq.DEALER)
    dealer.heartbeat_ivl, dealer.heartbeat_timeout, dealer.heartbeat_ttl = 20, 2000, 3000
    with listening(dealer.connect, server()) as wire:
        wire.next()
        octets = wire._connection.recv(65536)
        wire.engine.receive_data(octets)
        assert b"PING" in octets
        wire.engine.handle_timer(100.0)  # the time to live counts from here
        assert wire.engine.next_timer() == 101.5
        dealer.send(b"alive")
        assert wire.next() == MessagesReceived([[b"alive"]])


def test_router_of_libzmq_serves_us(make: Make) -> None:
    router = make(zmq.ROUTER)
    engine = client(identity=b"me")
    with connecting(router, engine) as wire:
        assert wire.next() == Opened("ROUTER", b"", (3, 1))
        engine.send([b"", b"x" * 70_000])
        wire.flush()
        assert router.recv_multipart() == [b"me", b"", b"x" * 70_000]
        router.send_multipart([b"me", b"a", b"b"])
        assert wire.next() == MessagesReceived([[b"a", b"b"]])


def test_publisher_of_libzmq_serves_us(make: Make) -> None:
    publisher = make(zmq.XPUB)
    engine = client(socket_type="SUB")
    with connecting(publisher, engine) as wire:
        assert wire.next() == Opened("XPUB", b"", (3, 1))
        engine.subscribe(b"a.")
        wire.flush()
        assert publisher.recv() == b"\1a."
        publisher.send_multipart([b"a.b", b"text"])
        assert wire.next() == MessagesReceived([[b"a.b", b"text"]])
        engine.cancel(b"a.")
        wire.flush()
        assert publisher.recv() == b"\0a."


def test_libzmq_answers_our_pings(make: Make) -> None:
    router = make(zmq.ROUTER)
    engine = client(heartbeat=10.0)
    with connecting(router, engine) as wire:
        wire.next()
        engine.handle_timer(100.0)
        engine.handle_timer(105.0)
        wire.flush()
        octets = wire._connection.recv(65536)
        assert octets == b"\x04\x05\x04PONG"


@pytest.mark.parametrize("right", [True, False])
def test_our_password_is_judged_by_libzmq(make: Make, right: bool) -> None:
    judge = make(zmq.REP)
    judge.bind("inproc://zeromq.zap.01")

    def answer() -> None:
        version, request, *_, password = judge.recv_multipart()
        status = b"200" if password == b"secret" else b"400"
        judge.send_multipart([version, request, status, b"", b"ada", b""])

    judging = threading.Thread(target=answer)
    judging.start()
    router = make(zmq.ROUTER)
    router.plain_server, router.zap_domain = True, b"x"
    engine = client(mechanism="PLAIN", user="ada", password="secret" if right else "wrong")
    with connecting(router, engine) as wire:
        assert wire.next() == (Opened("ROUTER", b"", (3, 1)) if right else ErrorReceived("400"))
    judging.join()
