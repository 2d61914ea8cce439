"""How a conversation is spoilt: by octets, by frames, by fields, by order; and how a stream is cut."""

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

from .amqp_words import HEARTBEAT, any_method, any_properties, deep_table, frame, header

Mutation = Callable[[Random, list[bytes]], None]


def _place(random: Random, frames: list[bytes]) -> int:
    return random.randrange(len(frames)) if frames else 0


# Frames and their order


def _drop(random: Random, frames: list[bytes]) -> None:
    if frames:
        del frames[_place(random, frames)]


def _repeat(random: Random, frames: list[bytes]) -> None:
    if frames:
        place = _place(random, frames)
        frames[place:place] = [frames[place]] * random.randrange(1, 4)


def _swap(random: Random, frames: list[bytes]) -> None:
    if frames:
        first, second = _place(random, frames), _place(random, frames)
        frames[first], frames[second] = frames[second], frames[first]


def _shuffle(random: Random, frames: list[bytes]) -> None:
    start = _place(random, frames)
    part = frames[start : start + 6]
    random.shuffle(part)
    frames[start : start + 6] = part


def _cut_off(random: Random, frames: list[bytes]) -> None:
    """End a frame early, in truth or only by what its size says."""
    if frames:
        place = _place(random, frames)
        octets = frames[place]
        if random.random() < 0.5:
            frames[place] = octets[: random.randrange(len(octets) + 1)]
        elif len(octets) > 8:
            kind, channel, _ = struct.unpack_from(">BHI", octets)
            frames[place] = frame(kind, channel, octets[7 : random.randrange(7, len(octets))])


def _lie_about_size(random: Random, frames: list[bytes]) -> None:
    if frames:
        place = _place(random, frames)
        octets = frames[place]
        if len(octets) >= 8:
            size = random.choice((0, 1, len(octets) - 9, len(octets) - 7, 4088, 4089, 2**31, 2**32 - 1))
            frames[place] = octets[:3] + struct.pack(">I", max(size, 0)) + octets[7:]


def _change_head(random: Random, frames: list[bytes]) -> None:
    """Give a frame another type, another channel or another end."""
    place = _place(random, frames)
    if frames and len(frames[place]) >= 8:
        octets = bytearray(frames[place])
        match random.randrange(3):
            case 0:
                octets[0] = random.choice((0, 1, 2, 3, 4, 7, 8, 255))
            case 1:
                octets[1:3] = struct.pack(">H", random.choice((0, 1, 2, 3, 65535)))
            case _:
                octets[-1] = random.randrange(256)
        frames[place] = bytes(octets)


def _insert(random: Random, frames: list[bytes]) -> None:
    channel = random.choice((0, 1, 1, 2, 3))
    match random.randrange(6):
        case 0:
            new = header(channel, random.choice((0, 1, 4, 5000, 2**63, 2**64 - 1)), any_properties(random))
        case 1:
            new = frame(3, channel, random.randbytes(random.randrange(12)))
        case 2:
            new = HEARTBEAT
        case 3:
            new = frame(random.randrange(10), channel, random.randbytes(random.randrange(12)))
        case 4:
            table = deep_table(random.choice((1, 63, 64, 65, 500)), random.choice((b"F", b"A")))
            new = header(channel, 0, b"\x20\x00" + table)
        case _:
            new = frame(1, channel, any_method(random))
    frames.insert(random.randrange(len(frames) + 1), new)


def _replace_fields(random: Random, frames: list[bytes]) -> None:
    """Keep a frame's method or header, with other fields; or keep its fields, with another method."""
    if not frames:
        return
    place = _place(random, frames)
    octets = frames[place]
    if len(octets) < 12:
        return
    kind, channel, _ = struct.unpack_from(">BHI", octets)
    if kind == 2:
        size = random.choice((octets[11:19], struct.pack(">Q", random.choice((0, 1, 5, 4096, 2**64 - 1)))))
        frames[place] = frame(2, channel, octets[7:11] + size + any_properties(random))
    elif random.random() < 0.5:
        frames[place] = frame(1, channel, any_method(random))
    else:
        frames[place] = frame(1, channel, any_method(random)[:4] + octets[11:-1])


# Octets


def _spoil_octets(random: Random, frames: list[bytes]) -> None:
    if not frames:
        return
    place = _place(random, frames)
    octets = bytearray(frames[place])
    at = random.randrange(len(octets) + 1)
    match random.randrange(5):
        case 0 if octets:
            octets[at % len(octets)] ^= 1 << random.randrange(8)
        case 1:
            octets[at:at] = random.randbytes(random.randrange(1, 5))
        case 2:
            del octets[at : at + random.randrange(1, 5)]
        case 3:
            octets[at : at + 4] = random.choice((bytes(4), b"\xff" * 4, b"\0\0\0\1", b"\x7f\xff\xff\xff"))
        case _:
            octets[at:at] = octets[at : at + 40]
    frames[place] = bytes(octets)


ANY_WIRE: tuple[Mutation, ...] = (_drop, _repeat, _swap, _shuffle, _spoil_octets, _spoil_octets)
"""What spoils a conversation in whatever pieces it comes."""

MUTATIONS: tuple[Mutation, ...] = (
    *ANY_WIRE,
    _cut_off,
    _lie_about_size,
    _change_head,
    _insert,
    _insert,
    _replace_fields,
    _replace_fields,
)


def spoil(random: Random, frames: list[bytes], mutations: Sequence[Mutation] = MUTATIONS) -> list[bytes]:
    """Apply none to a few mutations."""
    spoilt = list(frames)
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        random.choice(mutations)(random, spoilt)
    return spoilt


def cut(random: Random, data: bytes) -> list[bytes]:
    """Cut a stream at a few places."""
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(1, 8)))
    return [data[start:stop] for start, stop in pairwise((0, *places, len(data)))]
