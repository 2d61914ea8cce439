"""What both sides of a MicroMsg2 connection say, and how it is spoilt."""

from random import Random

from .mutations import ANY_WIRE, Mutation

CHOSEN = ("batch-ack", "pub-sub", "dotnet", "x-mine", "x-reply", "json")
"""The extensions that are agreed in most trials, by their numbers."""


def handshake(required: bytes, optional: bytes = b"", *, identity: bytes = b"fuzz", version: bytes = b"\1\0") -> bytes:
    lists = b"".join(len(each).to_bytes(2, "big") + each for each in (required, optional))
    return version + bytes((0, len(identity))) + identity + lists


def opening(role: str, window: int) -> list[bytes]:
    """Return what the other side of an engine says before frames."""
    first = f"batch-ack:max-count={window};" + ";".join(CHOSEN[1:])
    words = [handshake(first.encode())]
    return words * 2 if role == "server" else words


def length(size: int, *, is_large: bool) -> bytes:
    return size.to_bytes(4, "big") if is_large else bytes((size & 255,))


def framed(flags: int, sequence: int, destination: bytes, properties: bytes, body: bytes) -> bytes:
    """Make a MESSAGE; LARGE is added where the body needs it."""
    flags |= 8 * (len(body) > 255)
    front = bytes((flags,)) + (sequence & 65535).to_bytes(2, "big") + bytes((len(destination),)) + destination
    size = length(len(body), is_large=bool(flags & 8))
    return front + len(properties).to_bytes(2, "big") + properties + size + body


PROPERTIES = (
    b"",
    b"",
    b"a:N10;",
    b"a:N10;",
    b"a:N11;",
    b"first-name:Tj%C3%B6nas;b:D1413198000.5;",
    b"type:TOther;content-type:Ttext%2Fplain;",
    b"A:1 ; b : 2",
    b"a:T%4;",
    b"a",
    b"a:1;a:2;",
)
DESTINATIONS = (b"queue", b"queue", b"topic/orders", b"", b"topic/\xc3\xb6", b"\xff", b"a\nb")
COMMANDS = (
    b"subscribe;destination=topic%2Forders,filter=priority%3EN5,id=s1",
    b"subscribe;destination=queue,color=red",
    b"SUBSCRIBE;destination=a,filter=a%3C%3DTx",
    b"unsubscribe;id=s1",
    b"unsubscribe",
    b"dance",
    b"",
    b"subscribe;destination=a,filter=" + b"a%3DN5%3B" * 17,
)


def messages(random: Random, first: int) -> tuple[list[bytes], int]:
    """Make messages in a row, mostly alike; return them and the number behind the last."""
    destination = random.choice(DESTINATIONS[:4]) if random.random() < 0.9 else random.choice(DESTINATIONS)
    properties = random.choice(PROPERTIES[:7]) if random.random() < 0.9 else random.choice(PROPERTIES)
    size = random.choice((0, 2, 2, 20, 255, 256, 600))
    if random.random() < 0.1:
        parts = random.randrange(2, 5)
        found = [
            framed(16 if part < parts - 1 else 0, first, destination if not part else b"", properties, bytes(size))
            for part in range(parts)
        ]
        return found, first % 65535 + 1
    found = []
    for _ in range(random.choice((1, 1, 2, 3, 12, 40))):
        body = random.randbytes(size if random.random() < 0.9 else random.randrange(size + 1))
        found.append(framed(8 * (random.random() < 0.03), first, destination, properties, body))
        first = first % 65535 + 1
    return found, first


def extension(random: Random) -> bytes:
    number = random.choice((1, 1, 1, 3, 3, 4, 5, 6, 2, 0, 7))
    payload = {
        1: (random.choice((0, 1, 2, 3, 5, 65535))).to_bytes(2, "big"),
        3: random.choice((b"System.String", b"", b"Other", b"\xff", b"x" * 200)),
        5: b"\0\x01200 done",
    }.get(number, random.randbytes(random.randrange(5)))
    if random.random() < 0.05:
        payload = random.randbytes(random.randrange(300))
    is_large = len(payload) > 255 or random.random() < 0.05
    return bytes((10 if is_large else 2, number)) + length(len(payload), is_large=is_large) + payload


def conversation(random: Random, role: str) -> list[bytes]:
    """Make frames of one side."""
    number, words = random.choice((1, 1, 1, 2, 500, 65530)), []
    for _ in range(random.randrange(1, 8)):
        kind = random.random()
        if kind < 0.6:
            found, number = messages(random, number)
            words += found
            number = number if random.random() < 0.95 else random.randrange(65536)
        elif kind < 0.85:
            words.append(extension(random))
        elif kind < 0.97:
            text = random.choice(COMMANDS)
            if role == "server":
                words.append(bytes((1 if len(text) < 256 else 9,)) + length(len(text), is_large=len(text) > 255) + text)
        else:
            words.append(b"\4\x0b404 nothing")
    return words


# How it is spoilt


def _change_flags(random: Random, frames: list[bytes]) -> None:
    if frames:
        place = random.randrange(len(frames))
        flags = random.choice((0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 16, 17, 18, 24, 32, 64, 128, 255))
        frames[place] = bytes((flags,)) + frames[place][1:]


def _change_number(random: Random, frames: list[bytes]) -> None:
    """Give a message another sequence number."""
    if frames:
        place = random.randrange(len(frames))
        frame = frames[place]
        if frame and not frame[0] & 7:
            number = random.choice((0, 1, 2, 3, 10, 65534, 65535, random.randrange(65536)))
            frames[place] = frame[:1] + number.to_bytes(2, "big") + frame[3:]


def _lie_about_length(random: Random, frames: list[bytes]) -> None:
    """Say another length somewhere in a frame."""
    if frames:
        place = random.randrange(len(frames))
        frame = bytearray(frames[place])
        if frame:
            at = random.choice((1, 2, 3, 3, 4, len(frame) - 1, random.randrange(len(frame))))
            if at < len(frame):
                frame[at] = random.choice((0, 1, frame[at] ^ 1, frame[at] ^ 128, 255))
            frames[place] = bytes(frame)


def _insert(random: Random, frames: list[bytes]) -> None:
    new = random.choice(
        (extension(random), framed(24, 1, b"q", b"", b"part"), b"\x0c\0\0\0\x05500 x", random.randbytes(6))
    )
    frames.insert(random.randrange(len(frames) + 1), new)


MICROMSG: tuple[Mutation, ...] = (*ANY_WIRE, _change_flags, _change_number, _change_number, _lie_about_length, _insert)
"""What spoils a MicroMsg2 conversation."""
