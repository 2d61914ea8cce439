"""The other end of a connection, in a thread: the engine's server role, and a script of what it does."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from triomq.protocols.amqp import (
    BROKER_METHODS,
    AMQPEngine,
    ChannelOpened,
    ChannelOpenOk,
    Closed,
    ConnectionCloseOk,
    EndOfStream,
    Event,
    LoginRequested,
    OpenRequested,
)

Answer = Callable[[AMQPEngine, Event], None]
"""What a peer does about an event that is no business of the handshake; what the engine then has to say is sent."""


class Peer(threading.Thread):
    """Serves one connection until it ends; an exception in it fails the test."""

    def __init__(self, listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        super().__init__(daemon=True)
        self._listener = listener
        self._serve = serve
        self.failure: BaseException | None = None

    def run(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            try:
                self._serve(connection)
            except (ConnectionError, HungUp):
                pass
            except BaseException as failure:
                self.failure = failure


def serve(connection: socket.socket, answer: Answer) -> None:
    engine = AMQPEngine("server", now=time.monotonic(), methods=BROKER_METHODS)
    while not engine.outbox.finished:
        engine.receive_data(connection.recv(65536))
        while events := engine.events():
            for event in events:
                react(engine, event, answer)
        for octets in engine.data_to_send():
            connection.sendall(octets)


def react(engine: AMQPEngine, event: Event, answer: Answer) -> None:
    match event:
        case LoginRequested():
            engine.accept_login()
        case OpenRequested():
            engine.open_connection()
        case ChannelOpened():
            engine.send_method(event.channel, ChannelOpenOk())
        case Closed(by_peer=True):
            engine.send_method(0, ConnectionCloseOk())
        case Closed() | EndOfStream():
            pass
        case _:
            answer(engine, event)


class HungUp(Exception):
    """Raised by an answer that hangs up without a word."""


def silent(engine: AMQPEngine, event: Event) -> None:
    """Answer nothing."""


@contextmanager
def open_peer(answer: Answer, *, path: Path | None = None) -> Iterator[str]:
    """Give the URL of a peer that answers like this."""
    if path is None:
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"amqp://127.0.0.1:{listener.getsockname()[1]}?timeout=5"
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        url = f"amqp+unix://{path}?timeout=5"
    with listening(listener, lambda connection: serve(connection, answer)):
        yield url


@contextmanager
def open_speaker(words: bytes) -> Iterator[str]:
    """Return the URL of a server that reads once, sends these bytes and closes."""

    def speak(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(words)

    listener = socket.create_server(("127.0.0.1", 0))
    with listening(listener, speak):
        yield f"amqp://127.0.0.1:{listener.getsockname()[1]}?timeout=5"


@contextmanager
def listening(listener: socket.socket, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    with listener:
        peer = Peer(listener, serve)
        peer.start()
        yield
        peer.join(100)
    assert not peer.is_alive()
    if peer.failure is not None:
        raise peer.failure
