"""Arguments that a portal hands on as they are; their meaning is documented at the methods in Trio that take them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypedDict, TypeVar

from triomq.app import SinkHandle, Synchronise, User
from triomq.app.domain_handle import HashProperty, OverflowName
from triomq.app.streams import StartName
from triomq.store.hosting import HostKind
from triomq.tracelog import Trace

T = TypeVar("T", covariant=True)


class _Wrapped(Protocol[T]):
    @property
    def handle(self) -> T:
        """Return the handle in Trio."""


def unwrap(given: str | _Wrapped[T]) -> str | T:
    """Return the handle in Trio of a sink or a queue; a name, or something else by mistake, stays what it is."""
    found: str | T = getattr(given, "handle", given)  # type: ignore[arg-type]  # the handle raises the error
    return found


class BrokerArguments(TypedDict, total=False):
    """What ``open_broker`` takes besides endpoints."""

    users: Mapping[str, str | User] | None
    domains: Sequence[str]
    peers: Sequence[Synchronise]
    drain: float
    memory_high_watermark: float
    data_dir: Path | str | None
    queue_memory: int
    store_host: HostKind
    disk_reserve: int
    trace: Trace | None


class SinkArguments(TypedDict, total=False):
    """What ``DomainHandle.declare_sink`` takes besides name and kind."""

    durable: bool
    auto_delete: bool
    internal: bool
    alternate: str | SinkHandle | None
    hash_header: str | None
    hash_property: HashProperty | None


class QueueArguments(TypedDict, total=False):
    """What ``DomainHandle.declare_queue`` takes besides the name."""

    durable: bool
    exclusive: bool
    auto_delete: bool
    max_length: int | None
    max_bytes: int | None
    overflow: OverflowName
    message_ttl: float | None
    expires: float | None
    dead_letter_sink: str | SinkHandle | None
    dead_letter_key: str | None
    max_priority: int
    delivery_limit: int | None
    single_active: bool


class StreamArguments(TypedDict, total=False):
    """What ``DomainHandle.declare_stream`` takes besides the name."""

    partitions: int
    durable: bool
    max_age: float | None
    max_bytes: int | None
    max_length: int | None
    segment_bytes: int
    deduplicate: bool


class ReadArguments(TypedDict, total=False):
    """What ``StreamHandle.read`` takes."""

    from_offset: int | StartName
    since: float | None
    group: str | None
    wait: bool


class FeedArguments(TypedDict, total=False):
    """What ``QueueHandle.open_feed`` takes."""

    prefetch: int
    exclusive: bool
    priority: int
    weight: int
    no_local: bool
