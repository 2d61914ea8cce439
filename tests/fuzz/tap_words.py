"""What both sides of a tap connection say, and how it is spoilt."""

from random import Random
from typing import Any

import msgspec

from triomq.chunks import RecordRun, encode_chunk

from .mutations import ANY_WIRE, Mutation

CHUNK = encode_chunk(0, 1, [RecordRun(0, b"", [b"victim", b"k"], b"", [b"one", b"two"])])


def framed(fields: object) -> bytes:
    body = msgspec.msgpack.encode(fields)
    return len(body).to_bytes(4, "big") + body


def any_value(random: Random) -> Any:
    """Make a field of any type, at the edges of what it may be."""
    return random.choice(
        (
            None,
            True,
            -1,
            0,
            1,
            255,
            (1 << 32) - 1,
            1 << 32,
            (1 << 63) - 1,
            1 << 63,
            (1 << 64) - 1,
            1.5,
            "",
            "orders",
            "x" * random.choice((255, 256, 5000)),
            b"",
            random.randbytes(random.randrange(40)),
            [],
            [None, 5],
            [[None, 5], 1],
            {},
            {0: [None, 5]},
            {0: 5},
            {"a": 1},
        )
    )


def opening(role: str) -> list[bytes]:
    """Return what the other side of an engine says before requests."""
    if role == "server":
        return [framed((0, "tap", 1, "fuzz")), framed((1, "PLAIN", b"\0guest\0guest"))]
    return [framed((0, "tap", 1, "fuzz", ["PLAIN"])), framed((2, 65536))]


def request(random: Random, number: int) -> bytes:
    name, chunk = random.choice(("orders", "o", "victim")), random.choice((CHUNK, random.randbytes(200)))
    is_sink = random.choice((True, False))
    return framed(
        random.choice(
            (
                (16, number),
                (17, number, name),
                (17, number, name, "group"),
                (18, number, name, random.randrange(3), None, random.randrange(20)),
                (
                    18,
                    number,
                    name,
                    0,
                    random.getrandbits(64),
                    0,
                    random.choice((None, 5)),
                    1 << 16,
                    random.choice((0, 9)),
                ),
                (19, number, name, "group", {0: (None, random.randrange(30)), 1: (random.getrandbits(64), 2)}),
                (23, number),
                (24, number, random.choice((name, "o")), "group", random.randrange(5), 1 << random.randrange(32)),
                (17, number, "o", "group"),
                (18, number, "o", 0, None, random.randrange(5), None, 1 << 16, 0, "group"),
                (19, number, "o", "group", {0: (None, random.randrange(5))}),
                (20, number, name, is_sink, "writer", random.randrange(3), random.randrange(3), 0, chunk),
                (21, number, name, is_sink, "writer", random.randrange(3), {0: 0, 1: 1}),
                (22, number, name, is_sink, "writer", random.randrange(3), None, None),
                (22, number, name, is_sink, "writer", random.randrange(3), 1, 0),
            )
        )
    )


def answer(random: Random, number: int) -> bytes:
    """Make an answer, most often to what the client in the trial asks: a PING, an OFFSETS and a FETCH, in turn."""
    bounds = (random.getrandbits(64), 0, random.randrange(100), None)
    right = ((16, number), (17, number, [bounds]), (18, number, bounds, random.randbytes(random.randrange(300))))
    return framed(
        random.choice(
            (
                right[(number - 1) % 3],
                right[(number - 1) % 3],
                right[(number - 1) % 3],
                (19, number, "OUT_OF_RANGE", "gone", bounds),
                (19, number, "REFUSED", "no"),
                random.choice(right),
                (3, "CLOSED", "the broker stops"),
            )
        )
    )


# How it is spoilt


def _replace_field(random: Random, frames: list[bytes]) -> None:
    """Put another value into a frame, add one or take one away, with the length made good."""
    if not frames:
        return
    place = random.randrange(len(frames))
    try:
        fields = msgspec.msgpack.decode(frames[place][4:])
    except (msgspec.DecodeError, ValueError):
        return
    if not isinstance(fields, list) or not fields:
        return
    at = random.randrange(len(fields))
    match random.randrange(4):
        case 0:
            fields.append(any_value(random))
        case 1:
            del fields[at:]
        case _:
            fields[at] = any_value(random)
    frames[place] = framed(fields)


def _lie_about_length(random: Random, frames: list[bytes]) -> None:
    if frames:
        place = random.randrange(len(frames))
        true = len(frames[place]) - 4
        length = random.choice((0, 1, true - 1, true + 1, true + 4, 4096, 4097, 1 << 16, (1 << 16) + 1, (1 << 32) - 1))
        frames[place] = max(length, 0).to_bytes(4, "big") + frames[place][4:]


def _insert(random: Random, frames: list[bytes]) -> None:
    kind = random.choice((0, 1, 2, 3, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, "x"))
    new = framed((kind, *(any_value(random) for _ in range(random.randrange(9)))))
    frames.insert(random.randrange(len(frames) + 1), new)


TAP: tuple[Mutation, ...] = (*ANY_WIRE, _replace_field, _replace_field, _lie_about_length, _insert)
"""What spoils a tap conversation."""
