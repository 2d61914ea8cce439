"""What the other side of a direct connection may say: words, messages with any fields, and how both are spoilt."""

import struct
from random import Random

from triomq.protocols.dmp import CODE_NAMES, LARGEST_MESSAGE, NULL, PROTOCOL_HEADER, response

from .amqp_words import any_properties, deep_table
from .mutations import ANY_WIRE, Mutation

PLAIN = b"\0\0"
TEXT = b"\x80\0\x0atext/plain"
HEADERS = b"\x30\0\0\0\0\x11\x01aI\0\0\0\x01\x01bS\0\0\0\x01x\x02"


def short(octets: bytes) -> bytes:
    return bytes((len(octets),)) + octets


def message(exchange: bytes, key: bytes, properties: bytes, options: int, body: bytes) -> bytes:
    rest = short(exchange) + short(key) + properties + bytes((options,)) + len(body).to_bytes(3, "big") + body
    return struct.pack(">I", len(rest)) + rest


def any_message(random: Random, keys: tuple[bytes, ...] = (b"k", b"", b"other", b"\xff\xfe", b"x" * 255)) -> bytes:
    """Make a message, mostly in order; the bodies are of different lengths, or runs would be boring."""
    known = random.choice((PLAIN, PLAIN, TEXT, HEADERS))
    properties = known if random.random() < 0.8 else any_properties(random)
    body = random.randbytes(random.choice((0, 1, 5, 5, 5, 300)))
    return message(random.choice((b"", b"e")), random.choice(keys), properties, random.choice((0, 0, 0, 2, 255)), body)


def messages(random: Random) -> list[bytes]:
    """Make some messages, alike and not, with null messages between them."""
    found: list[bytes] = []
    for _ in range(random.randrange(6)):
        found += [any_message(random)] * random.choice((1, 1, 2, 5))
        found += [NULL] * random.choice((0, 0, 0, 1))
    return found


def opening(role: str, lease: bytes = b"lease") -> list[bytes]:
    """What the other side of an engine says first."""
    if role == "server":
        return [PROTOCOL_HEADER, short(lease)]
    return [response(200, "DMP/0.1"), response(200, "Ready")]


def answer(random: Random) -> bytes:
    """Make a response, of a kind that there is or is not."""
    known = response(random.choice(sorted(CODE_NAMES)), random.choice(("", "no", "x" * 300)))
    return random.choice((known, known, b"AMQP\0\0\x09\x01", short(b"999 WHAT"), short(b"20"), short(b"\xff" * 9)))


# How messages are spoilt


def _lie_about_size(random: Random, words: list[bytes]) -> None:
    if words:
        place = random.randrange(len(words))
        size = max(len(words[place]) - 4, 0)
        stated = random.choice((0, 1, 7, 8, size - 1, size + 1, size + 4, 4500, 4501, LARGEST_MESSAGE, 2**32 - 1))
        words[place] = struct.pack(">I", max(stated, 0)) + words[place][4:]


def _cut_off(random: Random, words: list[bytes]) -> None:
    """End a message early: in truth, or with a size that says so."""
    if words:
        place = random.randrange(len(words))
        kept = words[place][: random.randrange(len(words[place]) + 1)]
        words[place] = struct.pack(">I", len(kept) - 4) + kept[4:] if len(kept) > 12 and random.random() < 0.7 else kept


def _add_behind(random: Random, words: list[bytes]) -> None:
    """Let a message be longer than its body says."""
    if words:
        place = random.randrange(len(words))
        whole = words[place][4:] + random.randbytes(random.randrange(1, 9))
        words[place] = struct.pack(">I", len(whole)) + whole


def _insert(random: Random, words: list[bytes]) -> None:
    match random.randrange(4):
        case 0:
            new = random.randbytes(random.randrange(40))
        case 1:
            new = answer(random)
        case 2:
            new = message(b"", b"k", b"\x20\0" + deep_table(random.choice((1, 63, 64, 65, 500))), 0, b"deep")
        case _:
            new = any_message(random)
    words.insert(random.randrange(len(words) + 1), new)


DIRECT: tuple[Mutation, ...] = (*ANY_WIRE, _lie_about_size, _lie_about_size, _cut_off, _add_behind, _insert, _insert)
