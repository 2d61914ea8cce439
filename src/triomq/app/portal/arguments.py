"""The arguments that a portal hands on as they are; the methods that take them in Trio say what they mean."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from triomq.app import Synchronise, User
from triomq.store.keeper import HostKind

__all__ = ["BrokerArguments", "FeedArguments", "QueueArguments", "SinkArguments"]


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


class SinkArguments(TypedDict, total=False):
    """What ``DomainHandle.declare_sink`` takes besides name and kind."""

    durable: bool
    auto_delete: bool
    internal: bool
    alternate: str | None
    hash_header: str | None
    hash_property: str | None


class QueueArguments(TypedDict, total=False):
    """What ``DomainHandle.declare_queue`` takes besides the name."""

    durable: bool
    exclusive: bool
    auto_delete: bool
    max_length: int | None
    max_bytes: int | None
    overflow: str
    message_ttl: float | None
    expires: float | None
    dead_letter_sink: str | None
    dead_letter_key: str | None
    max_priority: int
    delivery_limit: int | None
    single_active: bool


class FeedArguments(TypedDict, total=False):
    """What ``QueueHandle.open_feed`` takes."""

    prefetch: int
    exclusive: bool
    priority: int
    weight: int
    no_local: bool
