"""The limits of a queue: how much more fits, and who gives way."""

from collections.abc import Sequence

from triomq.core.dispatch.window import UNLIMITED
from triomq.core.memory import MESSAGE_OVERHEAD
from triomq.core.message import Head
from triomq.core.publishing.publish import Publish
from triomq.core.queue.deadletter import MOST_DEAD_LETTERS, MOST_DROPPED, Reason, dead_letter
from triomq.core.queue.queue_state import QueueState


def count_fitting(state: QueueState, head: Head, contents: Sequence[bytes]) -> int:
    """Count how many of a run's contents there is room for, from the first on."""
    options, backlog = state.options, state.backlog
    count = len(contents)
    if options.max_length is not None:
        count = min(count, max(0, options.max_length - backlog.ready))
    if options.max_bytes is not None:
        room = options.max_bytes - backlog.ready_bytes
        for number, content in enumerate(contents[:count]):
            room -= len(content) - head.overhead
            if room < 0:
                return number
    return count


def fits_all(state: QueueState, runs: Sequence[Publish]) -> bool:
    """Tell whether there is room for all messages of some runs."""
    options, backlog = state.options, state.backlog
    ready = backlog.ready
    if options.max_length is not None and ready + sum(len(run.contents) for run in runs) > options.max_length:
        return False
    bodies = sum(run.size - len(run.contents) * run.head.overhead for run in runs)
    return options.max_bytes is None or backlog.ready_bytes + bodies <= options.max_bytes


def is_full(state: QueueState) -> bool:
    """Tell whether not even an empty message fits."""
    options, backlog = state.options, state.backlog
    return (options.max_length is not None and backlog.ready >= options.max_length) or (
        options.max_bytes is not None and backlog.ready_bytes >= options.max_bytes
    )


def shed(state: QueueState) -> bool:
    """Let the oldest ready messages give way until the limits hold; in a priority queue the lowest ones.

    Returns:
        Whether the limits hold; they may have become much narrower, and then the rest is for another turn. What is not
        resident gives way when it is.
    """
    options, backlog, letters, gone = state.options, state.backlog, 0, 0
    most = UNLIMITED if options.max_length is None else options.max_length
    most_bytes = UNLIMITED if options.max_bytes is None else options.max_bytes
    # The sums are written out, as ``Backlog.ready`` has them: this is done in each turn.
    while (over := backlog.resident + backlog.paged - most) > 0 or (
        backlog.resident_bytes + backlog.paged_bytes > most_bytes
    ):
        if letters >= MOST_DEAD_LETTERS or gone >= MOST_DROPPED:
            return False
        if not backlog.resident:
            break
        level = backlog.lowest_level
        head, contents = backlog.first(min(max(1, over), MOST_DEAD_LETTERS), level)
        if options.dead_letter_sink is not None:
            state.dead_lettered += dead_letter(state, head, contents, Reason.MAX_LENGTH)
            letters += len(contents)
        count = len(contents)
        backlog.drop(count, level)
        state.dropped += count
        gone += count
    return True


def bytes_ready(state: QueueState) -> int:
    """Tell about how many octets are ready in a queue, with what messages cost beside their bodies."""
    backlog = state.backlog
    return backlog.ready_bytes + backlog.ready * MESSAGE_OVERHEAD
