"""A conversation with one broker about one question: what is said in it is written down, as lines that compare."""

import itertools
import re
import time
from decimal import Decimal
from typing import Self

from pamqp import commands, frame
from pamqp.base import Frame as Method
from pamqp.header import ContentHeader

from triomq.protocols import Timestamp, Typed, decode_properties

from ..raw import BODY, HEADER, METHOD, RawFrame, RawPeer, encode

Basic, Channel, Connection = commands.Basic, commands.Channel, commands.Connection
Step = Method | bytes

PATIENCE = 5.0  # seconds until something that must come counts as missing
PATIENCE_WORN = 0.3  # the same once something was missing, or after a close, when little more is to be expected
SOON = 0.02  # seconds between two looks at a queue that something is on its way to
RESET = "reset"
NOTHING = "nothing comes"

_numbers = itertools.count(1)


class BrokenOffError(Exception):
    """The broker closed a channel or the connection in the middle of what a question needs first."""


class Speaker(RawPeer):
    """A connection that is told what to say and writes down what it hears, on channel 1 unless told."""

    closed = False

    def do(self, *steps: Step, channel: int = 1) -> Method | None:
        """Say steps that must be answered, each before the next; give the last answer.

        Raises:
            BrokenOffError: One of them is refused.
        """
        found: Method | None = None
        for step in steps:
            self.say(step, channel=channel)
            heard = self.read()
            found = heard.decode() if heard is not None and heard.kind == METHOD else None
            if found is None or isinstance(found, Channel.Close | Connection.Close):
                raise BrokenOffError(self.describe(heard))
        return found

    def say(self, *steps: Step, channel: int = 1) -> None:
        """Say steps at once."""
        self.socket.sendall(b"".join(step if isinstance(step, bytes) else encode(channel, step) for step in steps))

    def ask(self, *steps: Step, channel: int = 1) -> str:
        """Say steps at once; give the first thing that is heard."""
        self.say(*steps, channel=channel)
        return self.hear()[0]

    def hear(self, count: int = 1) -> list[str]:
        """Give the next things; a method and its content are one."""
        return [self._hear_one() for _ in range(count)]

    def _hear_one(self, within: float = 0.0) -> str:
        if within:
            self.socket.settimeout(within)
        try:
            found = self.describe(self.read())
        except TimeoutError:
            found = NOTHING
        worn = found == NOTHING or "close" in found.split()[0].lower()
        self.socket.settimeout(PATIENCE_WORN if worn else PATIENCE)
        return found

    def hush(self, seconds: float = 0.2) -> list[str]:
        """Give whatever comes within a time, which had better be nothing."""
        heard: list[str] = []
        ends = time.monotonic() + seconds
        while not self.closed and (left := ends - time.monotonic()) > 0:
            found = self._hear_one(within=left)
            if found != NOTHING:
                heard.append(found)
        return heard or [NOTHING]

    def get(self, queue: str, *, no_ack: bool = True) -> str:
        """What one basic.get gives."""
        return self.ask(Basic.Get(queue=queue, no_ack=no_ack))

    def get_soon(self, queue: str, *, no_ack: bool = True) -> str:
        """What basic.get gives as soon as it gives something."""
        ends = time.monotonic() + PATIENCE
        while (found := self.get(queue, no_ack=no_ack)).startswith("Basic.GetEmpty") and time.monotonic() < ends:
            time.sleep(SOON)
        return found

    def describe(self, found: RawFrame | None) -> str:
        """Put a frame, and the content that belongs to it, into a line."""
        if found is None:
            self.closed = True
            return RESET
        if found.kind != METHOD:
            return f"frame of type {found.kind}"
        method = found.decode()
        if isinstance(method, Channel.Close | Connection.Close):
            kind = "channel.close" if isinstance(method, Channel.Close) else "connection.close"
            return f"{kind} {method.reply_code} {method.reply_text} [{method.class_id}.{method.method_id}]"
        fields = " ".join(f"{name}={value!r}" for name, value in method)
        content = f" {self._content()}" if isinstance(method, Basic.Deliver | Basic.GetOk | Basic.Return) else ""
        return f"{method.name} {fields}{content}".strip()

    def _content(self) -> str:
        header = self.read()
        assert header is not None
        assert header.kind == HEADER, f"expected a content header, found {header}"
        head = frame.unmarshal(encode_again(header))[2]
        assert isinstance(head, ContentHeader)
        body = b""
        while len(body) < head.body_size:
            part = self.read()
            assert part is not None
            assert part.kind == BODY, f"expected a body frame, found {part}"
            body += part.payload
        properties = {name: value for name, value in head.properties if value is not None}
        headers = decode_properties(header.payload[12:], typed=True).headers  # behind class, weight and size
        types = f" types {types_of(headers)}" if headers else ""
        return f"{shown(properties)} {body if len(body) < 100 else len(body)!r}{types}"


def encode_again(found: RawFrame) -> bytes:
    """A frame's octets."""
    return found.kind.to_bytes(1) + found.channel.to_bytes(2) + len(found.payload).to_bytes(4) + found.payload + b"\xce"


def shown(value: object) -> str:
    """A value with the names of its tables in order."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return repr(value)


_NATURAL = {bool: "t", int: "I", float: "d", str: "S", bytes: "x", Decimal: "D", Timestamp: "T", type(None): "V"}


def types_of(value: object) -> str:
    """The wire types of a value: clients' languages tell numbers of 32 and of 64 bits apart."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {types_of(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(types_of, value)) + "]"
    return value.code if isinstance(value, Typed) else _NATURAL[type(value)]


class Talk:
    """One question put to one broker.

    Args:
        url: The broker.

    Attributes:
        q: A name that nothing has yet; lines show it as ``q``. So ``e``, and what `name` makes.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._stem = f"{time.monotonic_ns() % 10**9:x}.{next(_numbers)}"
        self._names: dict[str, str] = {}
        self._opened: list[Speaker] = []
        self._declared: list[Method] = []
        self.q, self.e = self.name("q"), self.name("e")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for speaker in self._opened:
            speaker.socket.close()

    def name(self, shown_as: str) -> str:
        """A name that nothing has yet."""
        name = f"{shown_as}.{self._stem}"
        self._names[name] = shown_as
        return name

    def open(
        self,
        *,
        channel: bool = True,
        user: str = "",
        handshake: bool = True,
        capabilities: dict[str, bool] | None = None,
        **limits: int,
    ) -> Speaker:
        """Connect, and open channel 1.

        Args:
            channel: without, there is no channel yet.
            user: who logs in, with the same word as password; guest if there is none.
            handshake: without, nothing is said at all.
            capabilities: of the client.
            limits: what tune-ok says.
        """
        url = self.url if not user else re.sub("//[^@]*@", f"//{user}:{user}@", self.url)
        speaker = Speaker(url, handshake=False)
        self._opened.append(speaker)
        speaker.socket.settimeout(PATIENCE)
        if handshake:
            speaker.start(capabilities)
            speaker.tune(**limits)
            speaker.do(Connection.Open(), channel=0)
        if channel:
            speaker.open_channel(1)
        return speaker

    def tidy(self, line: str) -> str:
        """Take out what is never the same twice."""
        for name, shown_as in self._names.items():
            line = line.replace(name, shown_as)
        for pattern, instead in _NEVER_THE_SAME:
            line = re.sub(pattern, instead, line)
        return line


_NEVER_THE_SAME = [
    (r"amq\.gen-[\w-]{22}", "amq.gen"),
    (r"amq\.ctag-[\w-]{22}", "amq.ctag"),
    (r"amq\.rabbitmq\.reply-to\.[^' ]+", "amq.rabbitmq.reply-to.generated"),
    (r"datetime\.datetime\([^()]*(\([^()]*\))?[^()]*\)", "a moment"),
]
