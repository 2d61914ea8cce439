"""Policies: options that the operator of a broker gives to queues and sinks by their names, whichever client declares
them.

At most one policy applies to a queue or a sink: of those that match the one with the highest priority, of several such
the first. Options that it leaves out stay as declared. Where both set a number the smaller one holds, of anything else
what was declared. Policies may come, change and go while queues are in use; a second declare is compared with what was
declared.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Annotated

import msgspec
import trio

from triomq.checked import Checked
from triomq.core.topology.options import Overflow, QueueOptions, SinkOptions, StreamOptions
from triomq.errors import PreconditionFailed

_Count = Annotated[int, msgspec.Meta(ge=0)] | None


class AppliesTo(Enum):
    """What a policy may apply to."""

    QUEUES = "queues"
    SINKS = "sinks"
    ALL = "all"


class PolicyOptions(Checked, frozen=True, kw_only=True):
    """The options of a policy, in the words of ``QueueOptions`` and ``SinkOptions``; None leaves an option as declared.

    Args:
        max_length: How many ready messages a queue holds.
        max_bytes: How many bytes of ready bodies it holds.
        overflow: What it does when it is full; a queue declared with ``DROP_HEAD`` follows it.
        message_ttl: Seconds that a message which comes from now on may be ready before it expires.
        expires: Seconds that the queue may go unused before it is deleted.
        dead_letter_sink: Where rejected, expired and shed messages are published to.
        dead_letter_key: With which key.
        delivery_limit: How often a message may come back before it becomes a dead letter.
        alternate: The sink that takes what no binding of a sink matches.
        max_age: Seconds for which a stream keeps a record at least.
        segment_bytes: Bytes of records that a stream's retention removes at once; a stream declared without another
            size follows it.
    """

    max_length: _Count = None
    max_bytes: _Count = None
    overflow: Overflow | None = None
    message_ttl: Annotated[float, msgspec.Meta(ge=0)] | None = None
    expires: Annotated[float, msgspec.Meta(ge=0)] | None = None
    dead_letter_sink: str | None = None
    dead_letter_key: str | None = None
    delivery_limit: _Count = None
    alternate: str | None = None
    max_age: Annotated[float, msgspec.Meta(gt=0)] | None = None
    segment_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Policy(Checked, frozen=True):
    """A policy.

    Args:
        name: Its name, for people.
        pattern: A regular expression, found anywhere in the names of what it applies to.
        options: What it sets.
        applies_to: Whether it is about queues, sinks or both.
        priority: The higher one holds where several match.

    Raises:
        PreconditionFailed: The pattern is no regular expression.
    """

    name: str
    pattern: str
    options: PolicyOptions
    applies_to: AppliesTo = AppliesTo.ALL
    priority: int = 0

    def __post_init__(self) -> None:
        """Check the fields, and the pattern."""
        super().__post_init__()
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise PreconditionFailed(
                f"the pattern {self.pattern!r} of policy {self.name!r} is no regular expression: {error}"
            ) from None


class Policies:
    """The policies of a domain, ready to be looked up; replaced as a whole, never changed.

    Args:
        policies: In any order.
    """

    __slots__ = ("_queues", "_sinks", "all")

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self.all = tuple(policies)
        ranked = sorted(self.all, key=lambda policy: -policy.priority)
        found = [(re.compile(policy.pattern).search, policy) for policy in ranked]
        self._queues = [pair for pair in found if pair[1].applies_to is not AppliesTo.SINKS]
        self._sinks = [pair for pair in found if pair[1].applies_to is not AppliesTo.QUEUES]

    def of_queue(self, name: str) -> Policy | None:
        """Find the policy of a queue."""
        return next((policy for matches, policy in self._queues if matches(name)), None)

    def of_sink(self, name: str) -> Policy | None:
        """Find the policy of a sink."""
        return next((policy for matches, policy in self._sinks if matches(name)), None)


class PolicyChange:
    """What other policies change in a domain; made by the domain, which goes through its sinks and queues in turns."""

    def __init__(self) -> None:
        self.changed = 0
        """How many sinks and queues have other options than before, as far as they were looked at."""
        self._done = trio.Event()

    def finish(self) -> None:
        """Record that all were looked at."""
        self._done.set()

    async def wait_done(self) -> int:
        """Wait until all were looked at; return how many have changed."""
        await self._done.wait()
        return self.changed


_SMALLER = ("max_length", "max_bytes", "message_ttl", "expires", "delivery_limit")
_DECLARED = ("dead_letter_sink", "dead_letter_key")


def queue_options(declared: QueueOptions, policy: Policy | None) -> QueueOptions:
    """Return the options of a queue under a policy."""
    if policy is None:
        return declared
    given, changes = policy.options, dict[str, object]()
    for option in (*_SMALLER, *_DECLARED):
        ours, theirs = getattr(declared, option), getattr(given, option)
        if theirs is not None and (ours is None or (option in _SMALLER and theirs < ours)):
            changes[option] = theirs
    if given.overflow is not None and declared.overflow is Overflow.DROP_HEAD:
        changes["overflow"] = given.overflow
    if declared.stream is not None:
        changes["stream"] = _stream_options(declared.stream, given)
    return msgspec.structs.replace(declared, **changes)


def _stream_options(declared: StreamOptions, given: PolicyOptions) -> StreamOptions:
    age, segment, theirs = declared.max_age, declared.segment_bytes, given.segment_bytes
    if given.max_age is not None:
        age = min(age or given.max_age, given.max_age)  # an age of 0 is no limit
    if theirs is not None:
        segment = theirs if segment == StreamOptions().segment_bytes else min(segment, theirs)
    return msgspec.structs.replace(declared, max_age=age, segment_bytes=segment)


def sink_options(declared: SinkOptions, policy: Policy | None) -> SinkOptions:
    """Return the options of a sink under a policy."""
    if policy is None or policy.options.alternate is None or declared.alternate is not None:
        return declared
    return msgspec.structs.replace(declared, alternate=policy.options.alternate)
