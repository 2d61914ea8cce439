"""Policies: options that the operator of a broker gives to queues and sinks by their names, whichever client declares
them.

At most one policy applies to a queue or a sink: of those that match the one with the highest priority, of several such
the first. With it one of the operator's policies applies, which is chosen alike: what only one of the two sets holds,
of two numbers the smaller one, of anything else what the operator's says. Options that it leaves out stay as declared.
Where both set a number the smaller one holds, of anything else what was declared. Policies may come, change and go
while queues are in use; a second declare is compared with what was declared.
"""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Annotated

import msgspec
import trio

from triomq.checked import Checked
from triomq.core.topology.options import Overflow, QueueOptions, SinkOptions, StreamOptions
from triomq.errors import PreconditionFailed

_Matches = Callable[[str], object]

_Count = Annotated[int, msgspec.Meta(ge=0)] | None


class AppliesTo(Enum):
    """What a policy may apply to."""

    QUEUES = "queues"
    CLASSIC_QUEUES = "classic queues"
    QUORUM_QUEUES = "quorum queues"
    STREAMS = "streams"
    SINKS = "sinks"
    ALL = "all"

    def covers(self, queue: QueueOptions) -> bool:
        """Return whether it is about queues that were declared so."""
        return self is not AppliesTo.SINKS and self in (AppliesTo.ALL, AppliesTo.QUEUES, _kind_of(queue))


def _kind_of(queue: QueueOptions) -> AppliesTo:
    if queue.stream is not None:
        return AppliesTo.STREAMS
    return AppliesTo.QUORUM_QUEUES if queue.is_quorum else AppliesTo.CLASSIC_QUEUES


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
        consumer_timeout: Seconds that a consumer behind a wire may leave a delivery unsettled; 0 for ever.
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
    consumer_timeout: Annotated[float, msgspec.Meta(ge=0)] | None = None


class Policy(Checked, frozen=True):
    """A policy.

    Args:
        name: Its name, for people.
        pattern: A regular expression, found anywhere in the names of what it applies to.
        options: What it sets.
        applies_to: Whether it is about queues, those of one type, sinks or both.
        priority: The higher one holds where several match.
        operator: Whether it is the operator's, which holds beside the one that applies otherwise; for queues alone.

    Raises:
        PreconditionFailed: The pattern is no regular expression.
    """

    name: str
    pattern: str
    options: PolicyOptions
    applies_to: AppliesTo = AppliesTo.ALL
    priority: int = 0
    operator: bool = False

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

    __slots__ = ("_merged", "_operators", "_queues", "_sinks", "all")

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self.all = tuple(policies)
        ranked = sorted(self.all, key=lambda policy: -policy.priority)
        found = [(re.compile(policy.pattern).search, policy) for policy in ranked]
        for_queues = [pair for pair in found if pair[1].applies_to is not AppliesTo.SINKS]
        self._queues = [pair for pair in for_queues if not pair[1].operator]
        self._operators = [pair for pair in for_queues if pair[1].operator]
        for_sinks = (AppliesTo.SINKS, AppliesTo.ALL)
        self._sinks = [pair for pair in found if pair[1].applies_to in for_sinks and not pair[1].operator]
        self._merged: dict[tuple[int, int], Policy] = {}

    def of_queue(self, name: str, declared: QueueOptions) -> Policy | None:
        """Find the policy of a queue, with the operator's in it."""
        own, operator = _first(self._queues, name, declared), _first(self._operators, name, declared)
        if own is None or operator is None:
            return own or operator
        pair = (id(own), id(operator))  # of policies that live as long as this object
        merged = self._merged.get(pair)
        if merged is None:
            merged = msgspec.structs.replace(own, options=_both(own.options, operator.options))
            self._merged[pair] = merged
        return merged

    def of_sink(self, name: str) -> Policy | None:
        """Find the policy of a sink."""
        return next((policy for matches, policy in self._sinks if matches(name)), None)


def _first(ranked: Iterable[tuple[_Matches, Policy]], name: str, declared: QueueOptions) -> Policy | None:
    return next((policy for matches, policy in ranked if matches(name) and policy.applies_to.covers(declared)), None)


def _both(own: PolicyOptions, operator: PolicyOptions) -> PolicyOptions:
    """Return the options of a policy and the operator's together."""
    changes = {}
    for option in own.__struct_fields__:
        ours, theirs = getattr(own, option), getattr(operator, option)
        if theirs is not None:
            changes[option] = _smaller(option, ours, theirs) if ours is not None and option in _SMALLER else theirs
    return msgspec.structs.replace(own, **changes)


def _smaller(option: str, ours: float, theirs: float) -> float:
    """Return the smaller of two limits; 0 seconds for consumers are no limit."""
    if option == "consumer_timeout" and not (ours and theirs):
        return ours or theirs
    return min(ours, theirs)


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


_SMALLER = ("max_length", "max_bytes", "message_ttl", "expires", "delivery_limit", "consumer_timeout")
_DECLARED = ("dead_letter_sink", "dead_letter_key")


def queue_options(declared: QueueOptions, policy: Policy | None) -> QueueOptions:
    """Return the options of a queue under a policy."""
    if policy is None:
        return declared
    given, changes = policy.options, dict[str, object]()
    for option in (*_SMALLER, *_DECLARED):
        ours, theirs = getattr(declared, option), getattr(given, option)
        if theirs is not None and (ours is None or option in _SMALLER):
            changes[option] = theirs if ours is None else _smaller(option, ours, theirs)
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
