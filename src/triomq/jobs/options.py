"""What the decorators take, and what a caller may change for one call."""

import math
from typing import Annotated, TypeAlias

import msgspec

from triomq.checked import Checked
from triomq.errors import ConfigError

Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Priority: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=9)]

RETRIES = 3
"""How often a job is tried again by default: with the backoff below, within 4 to 11 seconds.

More is for the job to say: one that fails of a bug fails as often as it is tried."""

BACKOFF = (1.0, 600.0)
"""Seconds before the first retry, and the most before any: each waits twice as long as the last, give or take."""

_MOST_MILLISECONDS = (1 << 31) - 1
"""25 days, the longest that the wire's whole numbers may be."""


class JobOptions(Checked, frozen=True, kw_only=True):
    """How a job is run, as its decorator says.

    Args:
        queue: Where it waits, if a call names no other.
        retries: How often it is tried again when it fails, is timed out, or its worker is lost.
        backoff: Seconds before the first retry, and the most before any.
        timeout: Seconds that one attempt may take; 0 is without limit.
        priority: From 0 to 9; higher ones overtake lower ones in their queue.
        unique: Whether a job that waits or runs already with the same arguments is returned in place of a second one;
            or a text such as ``"{order}"``, with names of arguments, so that only these count.
        key: What ``max_concurrency`` and ``rate`` are about, such as ``"{customer}"``; all calls of this job if empty.
            A key without these is for one job at a time. Jobs of any name share a key of the same text.
        max_concurrency: How many run at a time over all workers; 0 is without limit.
        rate: How many begin in a second, over all workers; 0 is without limit.
        shared: Whether ``unique`` and ``key`` are those of all users of the broker whose jobs say so, and not of this
            program's user alone.
        keep: Seconds for which a result stays with the broker after the end.
        final: Errors after which another attempt is not worth while.
    """

    queue: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] = "default"
    retries: Annotated[int, msgspec.Meta(ge=0, le=1000)] = RETRIES
    backoff: tuple[Seconds, Seconds] = BACKOFF
    timeout: Seconds = 0.0
    priority: Priority = 0
    unique: bool | str = False
    key: str = ""
    max_concurrency: Count = 0
    rate: Seconds = 0.0
    shared: bool = False
    keep: Seconds = 0.0
    final: object = ()

    def __post_init__(self) -> None:
        """Check what the annotations cannot say."""
        Checked.__post_init__(self)
        first, most = self.backoff
        if first > most:
            raise ConfigError(f"backoff: found {self.backoff}, expected (first, most) with the smaller one first")
        for name in ("timeout", "rate", "keep"):
            in_milliseconds(name, getattr(self, name))
        in_milliseconds("backoff", most)
        kinds = self.final if isinstance(self.final, tuple) else ()
        if kinds != self.final or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise ConfigError(f"final: found {self.final!r}, expected classes of errors, such as (ValueError,)")


def in_milliseconds(name: str, seconds: float) -> int:
    """Return what the wire takes.

    Raises:
        ConfigError: They are no seconds, or too many.
    """
    if math.isfinite(seconds) and 0 <= seconds * 1000 <= _MOST_MILLISECONDS:
        return math.ceil(seconds * 1000)
    raise ConfigError(f"{name}: found {seconds} s, expected 0 to {_MOST_MILLISECONDS // 1000} s")
