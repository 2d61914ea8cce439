"""RestMS's words: which types of feeds, pipes and joins there are (3/Defaults, 4/AMQP9), and what their names are.

A feed is what one writes to: a sink, or a queue that several readers share. A pipe is what one reads from: a queue of
its own, and a part of shared ones. A join is a binding, or that part. Whatever has no name of a client's has a hash.
"""

from collections.abc import Collection
from secrets import token_urlsafe
from typing import Final

import msgspec

from triomq.core import SinkKind
from triomq.endpoints.declaring import RESERVED
from triomq.endpoints.feeds.refusals import BadAddress, BadFeedName, ReservedName, UnknownType

DEFAULT: Final = "default"
"""The feed that is the default sink."""

SINK_TYPES: Final = {kind.value: kind for kind in (SinkKind.FANOUT, SinkKind.DIRECT, SinkKind.TOPIC, SinkKind.HEADERS)}
"""Types of feeds that are sinks, beside the empty one, which is direct."""

QUEUE_TYPES: Final = ("rotator", "service")
"""Types of feeds that are queues: each message goes to one of their joins, and an ondemand pipe joins no others. A
service goes with its last join."""

ONDEMAND: Final = "ondemand"
"""The type of pipes that take a message only when one is asked for."""

PIPE_MARK: Final = (("restms", "pipe"),)
"""In the remarks of a queue: it is somebody's pipe, so it is read by one, and not to be listed for others."""

FEED_PREFIX: Final = "feed-"
"""What the names of private feeds begin with, so that permissions can be given for them."""

PIPE_PREFIX: Final = "pipe-"
"""The same for pipes."""

MOST_JOINS: Final = 1_000
"""Joins of one pipe: its document lists them all, in some 5 ms."""

MOST_JOIN_HEADERS: Final = 32
"""Headers of one join: a message is compared with each of them."""

DEFAULT_JOIN_PREFIX: Final = "default-join-"

_RANDOM: Final = 16
"""Bytes of chance in a hash: to know it is the right to use what it stands for."""


class ResourceTypes(msgspec.Struct, frozen=True):
    """What one profile of RestMS defines, and which others it includes (2/RestMS: those MUST be implemented too)."""

    feeds: tuple[str, ...]
    pipes: tuple[str, ...]
    joins: tuple[str, ...]
    includes: tuple[str, ...] = ()


PROFILES: Final[dict[str, ResourceTypes]] = {
    "3/Defaults": ResourceTypes(feeds=("",), pipes=("", "fifo"), joins=("",)),
    "4/AMQP9": ResourceTypes(feeds=(*SINK_TYPES, *QUEUE_TYPES), pipes=(ONDEMAND,), joins=(), includes=("3/Defaults",)),
}
"""``fifo`` is what clients of 2009 call the pipe without a type (C4); what they say is what they are answered."""


_FORBIDDEN: Final = frozenset("/ @")
"""Of names of feeds, as class 61501 has it; control characters besides."""

_STEPS: Final = (".", "..")

_LONGEST_NAME: Final = 255
"""Bytes of a name: what a short string of AMQP holds."""


def require_feed_name(name: str) -> None:
    """Require that a feed can be made with a name, or without one; it is never changed without a word (C42).

    The rule is for those who make feeds here. What a broker tells of over AMQP has its name from AMQP, and keeps it.

    Raises:
        BadFeedName: It cannot.
    """
    if name in _STEPS:
        # RFC 3986, section 5.2.4, and the URL standard for %2E too: clients and proxies take these out of a path.
        raise BadFeedName(f"the name {name!r} is a step in a path, so that no URI leads there; take another one")
    wrong = sorted(_FORBIDDEN.intersection(name)) + [char for char in name if char < " " or char == "\x7f"]
    if wrong:
        raise BadFeedName(
            f"the name {name[:80]!a} has {wrong[0]!a} in it; slashes, spaces, at signs and control characters cannot "
            "be in a name; take another one, such as words with dots between them"
        )
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > _LONGEST_NAME:
        raise BadFeedName(f"the name has {size} bytes; {_LONGEST_NAME} are allowed; take a shorter one")


def require_address(address: str) -> None:
    """Require that the address of a join is not longer than all brokers can be told.

    Raises:
        BadAddress: It is.
    """
    size = len(address.encode("utf-8", "surrogateescape"))
    if size > _LONGEST_NAME:
        raise BadAddress(f"the address has {size} bytes; {_LONGEST_NAME} are allowed; take a shorter one")


def new_hash() -> str:
    """Return what cannot be guessed, in the letters of a URI."""
    return token_urlsafe(_RANDOM)


def with_included(names: Collection[str]) -> tuple[str, ...]:
    """List profiles with those that they include, these first."""
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys(with_included(PROFILES[name].includes))
        found[name] = None
    return tuple(found)


def require_type(kind: str, found: str, profiles: Collection[str]) -> None:
    """Require that a feed, pipe or join can have a type.

    Args:
        kind: ``feed``, ``pipe`` or ``join``.
        found: The type, empty for the default one.
        profiles: Of the domain.

    Raises:
        UnknownType: It cannot.
    """
    allowed = [each for name in with_included(profiles) for each in getattr(PROFILES[name], f"{kind}s")]
    if found not in allowed:
        raise UnknownType(kind, found, allowed)


def require_client_name(name: str) -> None:
    """Require that clients may make something of a name.

    Raises:
        ReservedName: Names like it are the broker's own.
    """
    if not name or name.startswith(RESERVED):
        raise ReservedName(name)
