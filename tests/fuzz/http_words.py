"""Words of HTTP: requests and answers, in order and otherwise; and what spoils them."""

from random import Random
from typing import Final

from .mutations import ANY_WIRE, Mutation

METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS")
_TARGETS: Final = ("/a?b", "/a%20b", "//x", "http://h/a", "*", "a", "/a#b", "h:80", "/\xff")
_VERSIONS: Final = ("HTTP/1.0", "HTTP/2.0", "HTTP/1.2", "http/1.1")
_FIELDS: Final = (
    *("X: y", "X:", "x: z", "Cookie: a=1", "TE: deflate,gzip;q=0.3", "Content-Type: text/xml", "Content-Type:"),
    *(
        "Connection: keep-alive",
        "Connection: Upgrade",
        "Upgrade: h2c",
        "Expect: 100-continue",
        "Authorization: Basic a",
    ),
)
_FAULTS: Final = (
    *("X : y", " X: y", "X\xe9: y", "X: \x01", ":x", "Host: h", "Host: a b", "Content-Length: 2", "Content-Length: +2"),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Connection: close", "Expect: more"),
)
_NOISE: Final = (
    *(b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\r\n ", b" ", b"\t", b"\0", b":", b",", b";", b"\x0b", b"\x80", b"\x85"),
    *(b"0", b"a", b"0\r\n", b"1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"AMQP\0\0\x09\x01", b"GET / HTTP/1.1\r\n"),
)
_STATUSES: Final = ("200 OK", "200", "404 Not Found", "100 Continue", "204 No Content", "304 Not Modified", "101 Other")


def _fields(random: Random) -> list[str]:
    fields = [random.choice(_FIELDS) for _ in range(random.choice((0, 0, 1, 2)))]
    return [*fields, random.choice(_FAULTS)] if random.random() < 0.03 else fields


def _framed(random: Random) -> tuple[list[str], bytes]:
    """Make a body, and what says where it ends."""
    body = random.randbytes(random.choice((0, 1, 5, 100)))
    if random.random() < 0.5:
        return [f"Content-Length: {len(body)}"], body
    chunks = []
    while body:
        size = random.randrange(1, len(body) + 1)
        extension = b";x=y" if random.random() < 0.01 else b""
        chunks.append(b"%x%s\r\n%s\r\n" % (size, extension, body[:size]))
        body = body[size:]
    trailer = b"X: y\r\n" if random.random() < 0.1 else b""
    return [random.choice(("Transfer-Encoding: chunked", "transfer-encoding:Chunked "))], b"".join(
        (*chunks, b"0\r\n", trailer, b"\r\n")
    )


def request(random: Random) -> bytes:
    """Make a request, mostly one in order."""
    method = random.choice(METHODS)
    target = "/" if random.random() < 0.8 else random.choice(_TARGETS)
    version = "HTTP/1.1" if random.random() < 0.9 else random.choice(_VERSIONS)
    framing, body = _framed(random) if random.random() < 0.6 else ([], b"")
    lines = [f"{method} {target} {version}", "Host: h", *_fields(random), *framing]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def answer(random: Random) -> bytes:
    """Make an answer, mostly one in order."""
    status = _STATUSES[0] if random.random() < 0.7 else random.choice(_STATUSES)
    version = "HTTP/1.1" if random.random() < 0.9 else random.choice(_VERSIONS)
    framing, body = _framed(random) if random.random() < 0.9 else ([], b"")
    lines = [f"{version} {status}", *_fields(random), *framing]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def _insert_noise(random: Random, words: list[bytes]) -> None:
    if words:
        place = random.randrange(len(words))
        at = random.randrange(len(words[place]) + 1)
        words[place] = words[place][:at] + random.choice(_NOISE) + words[place][at:]


def _lose_a_byte(random: Random, words: list[bytes]) -> None:
    place = random.randrange(len(words)) if words else 0
    if words and words[place]:
        at = random.randrange(len(words[place]))
        words[place] = words[place][:at] + words[place][at + 1 :]


HTTP: Final[tuple[Mutation, ...]] = (*ANY_WIRE, _insert_noise, _insert_noise, _lose_a_byte)
"""What spoils a conversation."""
