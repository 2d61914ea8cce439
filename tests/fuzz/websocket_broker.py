"""Fuzz a whole broker over WebSocket: ``python -m tests.fuzz.websocket_broker --seconds 60 --seed 1``.

Conversations of AMQP, as whole as a fuzzer makes them, are cut into messages and fragments; then the frames of these
are spoilt, and sometimes the handshake is, beside a healthy client over AMQP alone. What is sent is a good answer over
HTTP and then frames of WebSocket, or a refusal over HTTP.
"""

import sys
from random import Random

from triomq.actors import Event as ActorEvent
from triomq.actors import EventSubscription
from triomq.app import Broker
from triomq.transports import WebSocket
from triomq.transports.websocket import ServerHandshake, WebSocketTransport

from . import broker_fuzz
from .amqp_broker import generate
from .broker_fuzz import Round, within
from .loop import Violation
from .mutations import cut
from .websocket_words import BINARY, CLOSE, PING, PONG, TEXT, Seen, frame, frames_of, request
from .wires import Healthy, Wire

LARGEST = 1024 * 1024
_REQUESTS = (
    request(target="/other"),
    request("Origin: http://evil.example"),
    request(method="POST"),
    request(without="Sec-WebSocket-Key"),
    b"AMQP\0\0\x09\x01",
)
_WRONG = (
    frame(TEXT, b"text"),
    frame(BINARY, b"abc", mask=None),
    frame(BINARY, b"abc", reserved=4),
    frame(BINARY, b"", length=LARGEST + 1),
    frame(PING, bytes(126)),
    frame(PING, b"", fin=False),
    frame(0, b"part of nothing"),
    frame(5, b"abc"),
    frame(CLOSE, b"\x03"),
    frame(CLOSE, b"\x03\xe8\xff"),
)
_RIGHT = (frame(PING, b"here?"), frame(PONG), frame(BINARY), frame(PING) * 50, frame(CLOSE, b"\x03\xe8"))


def framed(random: Random, pieces: list[bytes]) -> list[bytes]:
    """Put octets into messages of one or more frames, with pings between them."""
    frames: list[bytes] = []
    for piece in pieces:
        mask = random.randbytes(4)
        places = sorted(random.randrange(len(piece) + 1) for _ in range(random.choice((0, 0, 0, 1, 3))))
        parts = [piece[start:end] for start, end in zip([0, *places], [*places, len(piece)], strict=True)]
        for number, part in enumerate(parts):
            frames.append(frame(0 if number else BINARY, part, fin=number == len(parts) - 1, mask=mask))
            if random.random() < 0.1:
                frames.append(random.choice(_RIGHT[:-1]))
    return frames


def spoilt(random: Random, frames: list[bytes]) -> bytes:
    """Insert what is wrong, or change octets, or neither."""
    for _ in range(random.choice((0, 0, 1, 2))):
        frames.insert(random.randrange(len(frames) + 1), random.choice(_WRONG + _RIGHT))
    data = bytearray(b"".join(frames))
    for _ in range(random.choice((0, 0, 0, 1, 5))):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


class WebSocketRound(Round):
    """Clients over WebSocket."""

    name = "websocket "

    def __init__(self, broker: Broker, events: EventSubscription[ActorEvent]) -> None:
        super().__init__(broker, events)
        self.healthy = Healthy(self.connect(reads=True))

    async def trial(self, number: int, random: Random) -> str:
        given = generate(random, number)
        begin = request() if random.random() < 0.95 else random.choice(_REQUESTS)
        data = begin + spoilt(random, framed(random, given.pieces))
        wire = Wire(reads=given.reads)
        WebSocketTransport(
            wire,
            ServerHandshake(WebSocket(), ("amqp",)),
            max_frame_size=LARGEST,
            opened=self.endpoint.listener.connect,
            failed=lambda transport, _: transport.close(),
        )
        for piece in cut(random, data) if random.random() < 0.5 else [data]:
            await within(wire.feed(piece), "an input was not read")
        await within(wire.feed(b""), "an end was not read")
        self.check()
        return outcome(wire.sent()) if given.reads else "did not read"


def outcome(sent: bytes) -> str:
    """Name how a conversation ended; what was sent must be HTTP, and then whole frames up to a Close."""
    if not sent:
        return "no answer"
    head, _, rest = sent.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 "):
        raise Violation(f"what was sent is no answer: {sent[:200]!r}")
    if not head.startswith(b"HTTP/1.1 101 "):
        return f"refused with {head[9:12].decode()}"
    try:
        frames = frames_of(rest)
    except (AssertionError, IndexError) as error:
        raise Violation(f"what was sent are no frames: {rest[:200]!r}: {error}") from error
    closes = [place for place, seen in enumerate(frames) if seen.opcode == CLOSE]
    if closes and closes != [len(frames) - 1]:
        raise Violation(f"something follows a Close: {frames[closes[0] :]}")
    return f"closed with {last_of(frames)}"


def last_of(frames: list[Seen]) -> str:
    return str(frames[-1].code) if frames and frames[-1].opcode == CLOSE else "no code"


def main(arguments: list[str] | None = None) -> int:
    return broker_fuzz.main(WebSocketRound, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
