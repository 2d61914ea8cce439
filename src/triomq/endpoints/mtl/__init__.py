"""11/MTL: control sessions, leases and data flows over ZeroMQ; by this door, what a profile of one's own is made of."""

from triomq.endpoints.base.domain_work import DomainWork
from triomq.endpoints.mtl.profile import (
    BOTH,
    FULL_CONFIRMS,
    NO_CONFIRMS,
    BadRequest,
    ContentSource,
    ContentTarget,
    NoArguments,
    ProfileCommand,
    ResourceProfile,
    SourceQueues,
    SourceReader,
    TooLarge,
    command,
    profile,
)

__all__ = [
    "BOTH",
    "FULL_CONFIRMS",
    "NO_CONFIRMS",
    "BadRequest",
    "ContentSource",
    "ContentTarget",
    "DomainWork",
    "NoArguments",
    "ProfileCommand",
    "ResourceProfile",
    "SourceQueues",
    "SourceReader",
    "TooLarge",
    "command",
    "profile",
]
