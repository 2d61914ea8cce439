"""The bounds of a queue: how much more fits, and which messages give way.

Its *limits* are options: what was declared, under the policy that applies. The oldest messages give way, or the newest
are refused, as the option ``overflow`` demands.

Its *ceiling* is set by a lease or a peer, not by the client that declared the queue, so it removes nothing that a
publisher was promised. What was in the queue stays, and so does what a publisher was told, or will be told, is safe.
Only *expendable* messages give way, whose publishers never ask: the oldest first, as far as they stand in front. What
still does not fit is refused in a broker without a store, so that publishers with confirms or in transactions learn of
it, and is paged in a broker with one; an expendable message that does not fit is dropped.
"""

import logging
from collections.abc import Sequence
from itertools import islice

from triomq.core.dispatch.feed import UNLIMITED
from triomq.core.memory import MESSAGE_OVERHEAD
from triomq.core.message import Stretch, overhead_of
from triomq.core.publishing.publish import Publish
from triomq.core.queue.deadletter import MOST_DEAD_LETTERS, MOST_DROPPED, PORTION_COST, Reason, dead_letter
from triomq.core.queue.queue_state import QueueState

_log = logging.getLogger("triomq.core")


def count_fitting(state: QueueState, stretch: Stretch) -> int:
    """Count how many messages there is room for, from the first on."""
    options, backlog = state.options, state.backlog
    count = len(stretch.contents)
    if options.max_length is not None:
        count = min(count, max(0, options.max_length - backlog.ready))
    if options.max_bytes is not None:
        room = options.max_bytes - backlog.ready_bytes
        for number, size in enumerate(islice(stretch.body_sizes(), count)):
            room -= size
            if room < 0:
                return number
    return count


def fits_all(state: QueueState, runs: Sequence[Publish]) -> bool:
    """Return whether there is room for all messages of some runs."""
    options, backlog = state.options, state.backlog
    ready = backlog.ready
    if options.max_length is not None and ready + sum(len(run.contents) for run in runs) > options.max_length:
        return False
    bodies = sum(run.size - overhead_of(run.head, run.heads, len(run.contents)) for run in runs)
    return options.max_bytes is None or backlog.ready_bytes + bodies <= options.max_bytes


def is_full(state: QueueState) -> bool:
    """Return whether not even an empty message fits."""
    options, backlog = state.options, state.backlog
    return (options.max_length is not None and backlog.ready >= options.max_length) or (
        options.max_bytes is not None and backlog.ready_bytes >= options.max_bytes
    )


def shed(state: QueueState) -> bool:
    """Remove the oldest ready messages until the limits hold; in a priority queue those of the lowest level.

    Returns:
        Whether the limits hold; they may have become much narrower, and then the rest is for another turn. What is not
        resident gives way when it is.
    """
    options, backlog, dead_letters, gone = state.options, state.backlog, 0, 0
    portion = MOST_DROPPED if options.dead_letter_sink is None else MOST_DEAD_LETTERS
    most = UNLIMITED if options.max_length is None else options.max_length
    most_bytes = UNLIMITED if options.max_bytes is None else options.max_bytes
    # The sums are written out, as ``Backlog.ready`` has them: this is done in each turn.
    while (over := backlog.resident + backlog.paged - most) > 0 or (
        backlog.resident_bytes + backlog.paged_bytes > most_bytes
    ):
        if dead_letters >= MOST_DEAD_LETTERS or gone >= MOST_DROPPED:
            return False
        if not backlog.resident:
            break
        level = backlog.lowest_level
        stretch = backlog.first(min(max(1, over), portion), level)
        count = len(stretch.contents)
        if options.dead_letter_sink is not None:
            ids = backlog.first_ids(count, level)
            count, copies = dead_letter(state, stretch, Reason.MAX_LENGTH, ids)
            stretch = stretch.up_to(count)
            dead_letters = MOST_DEAD_LETTERS if count < len(ids) else dead_letters + count
            state.dead_lettered += copies
        ids = backlog.drop(count, level)
        state.dropped += count
        if (on_removed := state.directory.on_removed) is not None:
            on_removed(state, stretch, Reason.MAX_LENGTH, ids)
        gone += count + PORTION_COST
    return True


def bytes_ready(state: QueueState) -> int:
    """Return about how many bytes the ready messages of a queue take, with the overhead of each."""
    backlog = state.backlog
    return backlog.ready_bytes + backlog.ready * MESSAGE_OVERHEAD


# The ceiling


_QUIET = 60.0
"""Seconds between two lines in the log about one queue: it may have no room for thousands of messages in a second."""


def bytes_of(run: Publish) -> int:
    """Return how many bytes a run takes, with the overhead of each message."""
    return run.size + len(run.contents) * MESSAGE_OVERHEAD


def fits_below(state: QueueState, ceiling: int, runs: Sequence[Publish]) -> bool:
    """Return whether none of some runs would be refused, if no older message gave way."""
    return _pages(state) or bytes_ready(state) + sum(map(bytes_of, runs)) <= ceiling


def make_room(state: QueueState, ceiling: int, run: Publish) -> int:
    """Remove older messages if a run does not fit; return how many of its messages may be stored then."""
    fitting = len(run.contents)
    if bytes_ready(state) + bytes_of(run) <= ceiling:
        return fitting
    lost = _drop_oldest(state, ceiling - bytes_of(run))
    if run.head.traits.expendable or not _pages(state):
        fitting = _count_fitting(state, ceiling, run)
    refused = len(run.contents) - fitting
    if run.head.traits.expendable:
        lost += refused
    state.lost += lost
    if lost or refused:
        _warn(state, ceiling, refused=0 if run.head.traits.expendable else refused)
    return fitting


def _pages(state: QueueState) -> bool:
    return state.directory.persistence is not None


def _drop_oldest(state: QueueState, most: int) -> int:
    """Drop expendable messages from the front until at most ``most`` bytes are left; return how many went."""
    backlog, dropped = state.backlog, 0
    while backlog.resident and (over := bytes_ready(state) - most) > 0:
        level = backlog.lowest_level
        stretch = backlog.first(MOST_DEAD_LETTERS, level)
        if not stretch.head.traits.expendable:
            break
        count = _covering(stretch, over)
        if state.options.dead_letter_sink is not None:
            ids = backlog.first_ids(count, level)
            count, copies = dead_letter(state, stretch.up_to(count), Reason.MAX_LENGTH, ids)
            state.dead_lettered += copies
        ids = backlog.drop(count, level)
        dropped += count
        if (on_removed := state.directory.on_removed) is not None:
            on_removed(state, stretch.up_to(count), Reason.MAX_LENGTH, ids)
    state.dropped += dropped
    return dropped


def _covering(stretch: Stretch, size: int) -> int:
    """Count the messages, from the first on, that take so many bytes with their overhead; all if they take less."""
    for number, body_size in enumerate(stretch.body_sizes(), 1):
        size -= body_size + MESSAGE_OVERHEAD
        if size <= 0:
            return number
    return len(stretch.contents)


def _count_fitting(state: QueueState, ceiling: int, run: Publish) -> int:
    """Count how many of a run's messages there is room for, from the first on; an empty queue takes any one."""
    used = bytes_ready(state)
    room = ceiling - used
    for number, content in enumerate(run.contents):
        room -= len(content) + MESSAGE_OVERHEAD
        if room < 0 and (used or number):
            return number
    return len(run.contents)


def _warn(state: QueueState, ceiling: int, *, refused: int) -> None:
    now = state.directory.clock.now()
    if now >= state.warned + _QUIET:
        state.warned = now
        event = "queue has no room and refuses messages" if refused else "queue has no room and loses messages"
        fields = {"domain": state.directory.name, "queue": state.name, "ceiling": ceiling, "lost": state.lost}
        _log.warning(event, extra={"fields": fields})
