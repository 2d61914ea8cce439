"""A session with one broker for one question: its answers become lines that can be compared."""

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

PATIENCE = 15.0  # seconds until something that must come counts as missing
PATIENCE_AFTER_SILENCE = 0.3  # the same once something was missing, or after a close: little more is expected
SOON = 0.02  # seconds between two looks at a queue that something is on its way to
RESET = "reset"
NOTHING = "nothing comes"

_numbers = itertools.count(1)


class BrokenOffError(Exception):
    """The broker closed a channel or the connection in the middle of what a question needs first."""


class Peer(RawPeer):
    """A connection that sends steps and describes what it receives, on channel 1 unless told otherwise."""

    closed = False

    def do(self, *steps: Step, channel: int = 1) -> Method | None:
        """Send steps that must be answered, each before the next; return the last answer.

        Raises:
            BrokenOffError: One of them is refused.
        """
        found: Method | None = None
        for step in steps:
            self.send_steps(step, channel=channel)
            received = self.read()
            found = received.decode() if received is not None and received.kind == METHOD else None
            if found is None or isinstance(found, Channel.Close | Connection.Close):
                raise BrokenOffError(self.describe(received))
        return found

    def send_steps(self, *steps: Step, channel: int = 1) -> None:
        """Send steps at once."""
        self.socket.sendall(b"".join(step if isinstance(step, bytes) else encode(channel, step) for step in steps))

    def ask(self, *steps: Step, channel: int = 1) -> str:
        """Send steps at once; return the first answer."""
        self.send_steps(*steps, channel=channel)
        return self.receive()[0]

    def receive(self, count: int = 1) -> list[str]:
        """Return the next answers; a method and its content are one."""
        return [self._receive_one() for _ in range(count)]

    def _receive_one(self, within: float = 0.0) -> str:
        if within:
            self.socket.settimeout(within)
        try:
            found = self.describe(self.read())
        except TimeoutError:
            found = NOTHING
        silent = found == NOTHING or "close" in found.split()[0].lower()
        self.socket.settimeout(PATIENCE_AFTER_SILENCE if silent else PATIENCE)
        return found

    def receive_for(self, seconds: float = 0.2) -> list[str]:
        """Return what comes within a time, which should be nothing."""
        received: list[str] = []
        ends = time.monotonic() + seconds
        while not self.closed and (left := ends - time.monotonic()) > 0:
            found = self._receive_one(within=left)
            if found != NOTHING:
                received.append(found)
        return received or [NOTHING]

    def get(self, queue: str, *, no_ack: bool = True) -> str:
        """Return the answer to one basic.get."""
        return self.ask(Basic.Get(queue=queue, no_ack=no_ack))

    def get_soon(self, queue: str, *, no_ack: bool = True) -> str:
        """Return the answer to basic.get as soon as there is a message."""
        ends = time.monotonic() + PATIENCE
        while (found := self.get(queue, no_ack=no_ack)).startswith("Basic.GetEmpty") and time.monotonic() < ends:
            time.sleep(SOON)
        return found

    def describe(self, found: RawFrame | None) -> str:
        """Describe a frame, and the content that belongs to it, in a line."""
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
    """Return a frame's octets."""
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


class Session:
    """One question to one broker.

    Args:
        url: The broker.

    Attributes:
        q: A name that nothing has yet; lines show it as ``q``. So ``e``, and what `name` makes.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._stem = f"{time.monotonic_ns() % 10**9:x}.{next(_numbers)}"
        self._names: dict[str, str] = {}
        self._opened: list[Peer] = []
        self._declared: list[Method] = []
        self.q, self.e = self.name("q"), self.name("e")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._opened:
            peer.socket.close()

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
    ) -> Peer:
        """Connect, and open channel 1.

        Args:
            channel: without, there is no channel yet.
            user: the user, whose password is the same word; guest if there is none.
            handshake: without, nothing is sent at all.
            capabilities: of the client.
            limits: for tune-ok.
        """
        url = self.url if not user else re.sub("//[^@]*@", f"//{user}:{user}@", self.url)
        peer = Peer(url, handshake=False)
        self._opened.append(peer)
        peer.socket.settimeout(PATIENCE)
        if handshake:
            peer.start(capabilities)
            peer.tune(**limits)
            peer.do(Connection.Open(), channel=0)
        if channel:
            peer.open_channel(1)
        return peer

    def tidy(self, line: str) -> str:
        """Replace what is never the same twice."""
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
