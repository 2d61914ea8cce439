"""A toy with all that a protocol may have: a layer on its transport, a log-in, confirms and acks, on lines of text.

    LOGIN name password      OK, or the end
    QUEUE name               OK
    PUB number sink key persistence header\\ttext     OK number, when it is placed and on disk; ERR number reason
    SUB queue                OK, then MSG number bytes, and the body
    ACK number               nothing

Every line is in frames of the layer below, as WebSocket would have it.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from triomq.core import Batch, DeclareQueue, Outcome, Properties, QueueOptions, Subscription
from triomq.endpoints import BrokerContext, Endpoint, SASLLogin, StreamClient, StreamListener
from triomq.errors import TriomqError
from triomq.security import Plain
from triomq.transports import Driver, Transport

sys.path.append(str(Path(__file__).parent.parent.parent / "examples"))

from line_engine import Line, LineEngine
from line_protocol import LineEndpoint, Lines

__all__ = ["Deframer", "LineEndpoint", "Lines", "ToyEndpoint", "Toys", "framed"]

LONGEST = 4 << 20


def framed(data: bytes) -> bytes:
    """Put bytes into one frame: four bytes of length, and the bytes."""
    return len(data).to_bytes(4, "big") + data


class Deframer:
    """Takes frames off, and passes on what is in them as it comes: nothing is held until a frame is whole."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0  # bytes of the frame that are still to come

    def take(self, data: bytes) -> bytes:
        content = b""
        while data:
            if self._left:
                content += data[: self._left]
                taken = min(len(data), self._left)
                self._left -= taken
            else:
                taken = 4 - len(self._header)
                self._header += data[:taken]
                if len(self._header) == 4:
                    self._left, self._header = int.from_bytes(self._header, "big"), b""
            data = data[taken:]
        return content


class FramedTransport:
    """A transport on a transport: what is above it knows nothing of frames."""

    def __init__(self, below: Transport) -> None:
        self._below = below
        self._deframer = Deframer()
        self._driver: Driver

    peer = property(lambda self: self._below.peer)
    bottom = property(lambda self: self._below.bottom)
    is_encrypted = property(lambda self: self._below.is_encrypted)
    progress = property(lambda self: self._below.progress)
    receive_size = property(
        lambda self: self._below.receive_size, lambda self, size: setattr(self._below, "receive_size", size)
    )

    def start(self, driver: Driver) -> None:
        self._driver = driver
        self._below.start(self)

    def received(self, data: bytes) -> None:
        if not data:
            self._driver.received(b"")
        elif found := self._deframer.take(data):
            self._driver.received(found)

    def drained(self) -> None:
        self._driver.drained()

    def send_nowait(self, buffers: Sequence[bytes | memoryview]) -> bool:
        return self._below.send_nowait([framed(b"".join(buffers))])

    def notify_drained(self) -> None:
        self._below.notify_drained()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def end_sending(self) -> None:
        self._below.end_sending()

    def client_name(self, kind: str) -> str:
        return self._below.client_name(kind)

    def close(self) -> None:
        self._below.close()


class ToyLogin(SASLLogin["ToyClient"]):
    def challenged(self, client: "ToyClient", challenge: bytes) -> None:
        raise AssertionError("PLAIN with a response asks nothing")

    def accepted(self, client: "ToyClient", user: str) -> None:
        client.enter(user, "default")
        client.answer("OK")

    def denied(self, client: "ToyClient") -> None:
        client.leave()


class ToyClient(StreamClient):
    def __init__(self, transport: Transport, context: BrokerContext) -> None:
        self.engine = LineEngine(LONGEST)
        super().__init__(transport, self.engine, context)
        self._login = ToyLogin(context, transport.peer, {"PLAIN": Plain})

    def answer(self, text: str) -> None:
        self.engine.send(text.encode() + b"\n")
        self.ref.touch()

    def line(self, event: Line) -> None:
        word, *words = event.text.decode().split(" ", 5)
        if word == "LOGIN":
            self._login.first(self, "PLAIN", "\0".join(["", *words]).encode())
        elif word == "QUEUE":
            self.ask(self.domain, DeclareQueue(words[0], QueueOptions(durable=False), self.session))
            self.answer("OK")
        elif word == "PUB":
            self._publish(*words)
        elif word == "SUB":
            self.subscribe(words[0])
            self.answer("OK")
        elif word == "ACK":
            self.unsettled.settle_each((int(words[0]),), Outcome.ACCEPT)

    event_handlers: ClassVar = {Line: line}

    def _publish(self, number: str, sink: str, key: str, persistent: str, rest: str) -> None:
        header, _, text = rest.partition("\t")
        properties = Properties(persistent=persistent == "yes", headers={header: 1} if header else None)
        done = partial(self._answer_placed, number)
        if not self.publish(sink.strip("-"), key, text.encode(), properties, done):
            self._answer_placed(number, True)

    def _answer_placed(self, number: str, placed: bool) -> None:
        self.answer(f"OK {number}" if placed else f"ERR {number} a queue is full")

    def refused(self, event: Line, error: TriomqError) -> None:
        self.ending = str(error)
        self.leave()

    def encode(self, batch: Batch) -> None:
        number = self.unsettled.enter(batch)
        for position in batch.unsettled():
            body = batch.message(position).body
            self.engine.send(b"MSG %d %d\n%b\n" % (number + position, len(body), body))

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        self.answer("END")


class ToyEndpoint(Endpoint):
    def __init__(self, config: "Toys", context: BrokerContext) -> None:
        self.listener = StreamListener(
            lambda transport: ToyClient(FramedTransport(transport), context), "127.0.0.1", config.port
        )
        super().__init__(context, self.listener)


class Toys(Lines, frozen=True, forbid_unknown_fields=True, tag="toys"):
    def make(self, broker: BrokerContext) -> ToyEndpoint:  # type: ignore[override]
        return ToyEndpoint(self, broker)
