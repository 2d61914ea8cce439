"""Which stays belong together: moves, copies of one publish, replies, jobs."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Final

from triomq.analytics.path_parts import Stay

COPIES_WITHIN: Final = timedelta(seconds=1)
"""How long after each other a publish is stored in all queues that it was routed to."""


def link(stays: Sequence[Stay], *, shared: frozenset[str], trace_id: str) -> list[list[Stay]]:
    """Group stays that are linked; groups and the stays of each are in the order in which they began.

    Args:
        stays: All.
        shared: Ids that link nothing, since too many messages have them.
        trace_id: A trace all messages of which are linked; or empty.
    """
    ordered = sorted(stays, key=lambda stay: stay.began)
    group_of = list(range(len(ordered)))

    def root(number: int) -> int:
        while group_of[number] != number:
            number = group_of[number]
        return number

    for one, other in _links(ordered, shared, trace_id):
        first, second = sorted((root(one), root(other)))
        group_of[second] = first
    groups: dict[int, list[Stay]] = {}
    for number, stay in enumerate(ordered):
        groups.setdefault(root(number), []).append(stay)
    return list(groups.values())


def _links(stays: Sequence[Stay], shared: frozenset[str], trace_id: str) -> Iterator[tuple[int, int]]:
    yield from _moves(stays)
    yield from _copies(stays, shared)
    yield from _by_ids(stays, shared)
    if trace_id:
        yield from _chain(number for number, stay in enumerate(stays) if trace_id in (stay.traceparent or ""))


def _moves(stays: Sequence[Stay]) -> Iterator[tuple[int, int]]:
    """Link what moved with what it was before: of several with one number, the last one that had begun by then."""
    at_place: dict[object, list[int]] = {}
    for number, stay in enumerate(stays):
        at_place.setdefault(stay.events[0].place, []).append(number)
    for number, stay in enumerate(stays):
        first = stay.events[0]
        if stay.moved_from is not None:
            there = at_place.get((first.node, first.domain, *stay.moved_from), [])
            earlier = [other for other in there if stays[other].began <= stay.began]
            yield from ((other, number) for other in (earlier or there)[-1:])


def _copies(stays: Sequence[Stay], shared: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Link what one publish has put into several queues; who counts messages may use an id again, but later."""
    first_of: dict[object, int] = {}
    for number, stay in enumerate(stays):
        event = stay.events[0]
        if event.kind == "queued" and event.message_id and event.message_id not in shared:
            key = (event.node, event.session, event.message_id)
            first = first_of.setdefault(key, number)
            if stay.began - stays[first].began <= COPIES_WITHIN:
                yield first, number
            else:
                first_of[key] = number


def _by_ids(stays: Sequence[Stay], shared: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Link requests and replies, and the messages of a job: a message id alone links nothing."""
    having: dict[str, list[int]] = {}
    linking: set[str] = set()
    for number, stay in enumerate(stays):
        binding = {text for text in (stay.correlation_id, stay.job_id) if text}
        for text in sorted(binding | ({stay.message_id} if stay.message_id else set())):
            having.setdefault(text, []).append(number)
        linking |= binding
    for text in sorted(linking - shared):
        yield from _chain(having[text])


def _chain(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    return pairwise(numbers)
