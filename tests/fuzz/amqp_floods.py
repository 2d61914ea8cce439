"""Inputs that are long: whatever a peer sends, an engine retains no more of it than its limits allow."""

from collections.abc import Callable, Iterator
from random import Random

from triomq.protocols.amqp import BasicPublish, ChannelClose, ChannelOpen, QueueDeclare

from .amqp_words import CLIENT_OPENING, frame, header, method

CHUNK = 64 * 1024
RUNNING = len(CLIENT_OPENING)


def _noise(random: Random) -> Iterator[bytes]:
    while True:
        yield random.randbytes(CHUNK)


def _unfinished_contents(random: Random) -> Iterator[bytes]:
    for channel in (3, 4, 5):
        yield method(channel, ChannelOpen())
    while True:
        for channel in range(1, 6):
            yield method(channel, BasicPublish("e" * 200, "k" * 200)) + header(channel, 4500)
            yield frame(3, channel, b"x" * 4000)


def _bodies_of_one_octet(random: Random) -> Iterator[bytes]:
    yield method(1, BasicPublish()) + header(1, 4500)
    yield b"".join(frame(3, 1, b"x") for _ in range(4000))
    while True:
        yield frame(3, 1, b"") * 8000


def _new_methods(random: Random) -> Iterator[bytes]:
    """Publishes that are all different, for what remembers methods and shapes."""
    while True:
        keys = (random.randbytes(127).hex() for _ in range(100))
        yield b"".join(method(1, BasicPublish("e", key)) + header(1, 0, b"\x80\x00\x03abc") for key in keys)


def _heartbeats(random: Random) -> Iterator[bytes]:
    while True:
        yield b"\x08\x00\x00\x00\x00\x00\x00\xce" * 8000


def _after_a_failure(random: Random) -> Iterator[bytes]:
    yield frame(3, 2, b"no method")
    while True:
        yield random.choice((method(1, QueueDeclare("q")) * 100, frame(3, 1, b"x" * 4000), random.randbytes(4000)))


def _on_a_closing_channel(random: Random) -> Iterator[bytes]:
    yield method(1, BasicPublish()) + header(1, 2**40)
    while True:
        yield frame(3, 1, b"x" * 4000) * 8
        yield method(1, BasicPublish()) + header(1, 2**40)
        yield method(1, ChannelClose(200, "bye"))


FLOODS: dict[str, tuple[int, Callable[[Random], Iterator[bytes]]]] = {
    "noise instead of a header": (0, _noise),
    "noise while a login is judged": (2, _noise),
    "noise": (RUNNING, _noise),
    "unfinished contents": (RUNNING, _unfinished_contents),
    "bodies of one octet": (RUNNING, _bodies_of_one_octet),
    "ever new methods": (RUNNING, _new_methods),
    "heartbeats": (RUNNING, _heartbeats),
    "after a failure": (RUNNING, _after_a_failure),
    "on a closing channel": (RUNNING, _on_a_closing_channel),
}
