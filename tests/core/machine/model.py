"""The parts of models: kinds of messages, windows, feeds, and messages that are ready or unsettled."""

from itertools import groupby
from typing import NamedTuple

from hypothesis import strategies as st

from triomq.core import Batch, Feed, Head, Properties, Publish, Receipt, Window, body_of, encode_core, traits_of

from ..harness import HEAD, OTHER_HEAD, Consumer


class MessageKind:
    """What the messages of a run share: head and encoded properties, and the meaning of these."""

    def __init__(self, head: Head, properties: bytes = b"", *, expiration: float | None = None, level: int = 0) -> None:
        self.head = head
        self.expiration = expiration
        self.level = level
        self._properties = properties

    def __repr__(self) -> str:
        return f"MessageKind({self.head}, expiration={self.expiration}, level={self.level})"

    def content(self, serial: int, size: int) -> bytes:
        """Return a message whose body begins with its serial number; the head's octets around it count as body here."""
        return self._properties + serial.to_bytes(2, "big").ljust(size, b".")


def make_kind(
    *,
    expiration: float | None = None,
    priority: int | None = None,
    publisher: int = 0,
    persistent: bool = False,
    key: str = "",
) -> MessageKind:
    """Return a kind whose messages have such properties."""
    encoded = encode_core(Properties(expiration=expiration, priority=priority))
    start = len(encoded)
    head = Head(
        routing_key=key,
        properties_stop=start,
        body_start=start,
        traits=traits_of(
            publisher=publisher,
            has_expiration=expiration is not None,
            has_priority=priority is not None,
            persistent=persistent,
        ),
    )
    return MessageKind(head, encoded, expiration=expiration, level=priority or 0)


# Sizes beside each other, so that byte limits matter; runs of several kinds.
PLAIN = [MessageKind(HEAD), MessageKind(OTHER_HEAD), MessageKind(Head(body_start=1, body_trailer=1))]
LARGEST = 12
SIZES = st.lists(st.integers(2, LARGEST), min_size=1, max_size=8)
LIMITS = st.sampled_from([0, 0, 1, 2, 3, 5])
BYTE_LIMITS = st.sampled_from([0, 0, 0, 10, 30])

Runs = list[tuple[MessageKind, list[int]]]


class Mixed(NamedTuple):
    """Messages that are published together, since they have the same traits; ``kinds`` are parallel to ``contents``."""

    kinds: list[MessageKind]
    contents: list[bytes]

    def publish(self, receipt: Receipt, delay: float) -> Publish:
        """Return the publish; messages that have the same head all are one without ``heads``."""
        heads = [kind.head for kind in self.kinds]
        several = heads if len(set(heads)) > 1 else None
        return Publish(heads[0], self.contents, sum(map(len, self.contents)), receipt, None, delay, several)


def mixed(runs: Runs, serial: int) -> list[Mixed]:
    """Put neighbours with the same traits together; the bodies are numbered from ``serial`` on."""
    found: list[Mixed] = []
    for _, group in groupby(runs, key=lambda run: run[0].head.traits):
        kinds = [(kind, size) for kind, sizes in group for size in sizes]
        contents = [kind.content(number, size) for number, (kind, size) in enumerate(kinds, serial)]
        found.append(Mixed([kind for kind, _ in kinds], contents))
        serial += len(contents)
    return found


class WindowModel:
    """The unsettled messages that count in one window."""

    def __init__(self, messages: int = 0, byte_limit: int = 0) -> None:
        self.window = Window(messages, bytes=byte_limit)
        self.sizes: dict[int, int] = {}  # by message id

    def admits(self, size: int) -> bool:
        limit, byte_limit, used = self.window.limit, self.window.byte_limit, sum(self.sizes.values())
        return not (limit and len(self.sizes) >= limit) and not (byte_limit and used and used + size > byte_limit)


class OpenedFeed:
    """One open feed and its consumer; ``largest`` is the size of the largest message there may be."""

    def __init__(
        self, feed: Feed, consumer: Consumer, own: WindowModel, others: list[WindowModel], gate: Window, largest: int
    ) -> None:
        self.feed = feed
        self.consumer = consumer
        self.own = own
        self.counts = [own, *others]
        self.gate = gate
        self.largest = largest

    @property
    def has_room(self) -> bool:
        """Whether any message may go; a smaller one than the feed waits for might, but need not."""
        return not self.gate.held and all(count.admits(self.largest) for count in self.counts)


Death = tuple[str, str, int]
"""A queue that gave a message up, why, and how often."""


class ReadyMessage:
    """One message that is ready."""

    def __init__(self, kind: MessageKind, content: bytes, deadline: float) -> None:
        self.kind = kind
        self.content = content
        self.deadline = deadline
        self.deaths: list[Death] = []

    @property
    def body(self) -> bytes:
        return body_of(self.kind.head, self.content)

    @property
    def body_size(self) -> int:
        return len(self.body)


class UnsettledMessage:
    """One message that is out."""

    def __init__(self, batch: Batch, position: int, message: ReadyMessage, counts: list[WindowModel]) -> None:
        self.batch = batch
        self.position = position
        self.message = message
        self.counts = counts
