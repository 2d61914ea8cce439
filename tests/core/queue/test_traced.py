"""A tracer hears of all that happens to messages, with their ids."""

from collections.abc import Sequence

import pytest

from core.harness import HEAD, OTHER_HEAD, Harness, publish
from triomq.actors import Ref
from triomq.chunks import MovableChunk, RecordRun, encode_chunk
from triomq.core import (
    Batch,
    Head,
    MovedFrom,
    Outcome,
    Overflow,
    Publish,
    Purge,
    QueueOptions,
    QueueState,
    Reason,
    Settle,
    StreamOptions,
)
from triomq.core.publishing.publish import PublishChunk


class Tracing:
    """A tracer that remembers what it is called with."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def queued(
        self,
        queue: QueueState,
        first: int,
        head: Head,
        contents: Sequence[bytes],
        heads: Sequence[Head] | None = None,
        moved_from: MovedFrom | None = None,
    ) -> None:
        keys = {each.routing_key for each in ([head] if heads is None else heads)}
        if moved_from is not None:
            self.heard.append(("moved", queue.name, first, moved_from.queue, list(moved_from.ids), moved_from.reason))
            return
        self.heard.append(("queued", queue.name, first, list(contents), keys))

    def appended(self, queue: QueueState, first: int, count: int) -> None:
        self.heard.append(("appended", queue.name, first, count))

    def handed_out(self, queue: QueueState, batch: Batch) -> None:
        self.heard.append(("handed out", queue.name, list(batch.ids), batch.attempts))

    def settled(self, queue: QueueState, ids: Sequence[int], outcome: Outcome) -> None:
        self.heard.append(("settled", queue.name, list(ids), outcome))

    def removed(self, queue: QueueState, ids: Sequence[int] | None, reason: Reason | None) -> None:
        self.heard.append(("removed", queue.name, None if ids is None else list(ids), reason))

    def traces(self, queue: QueueState, ids: Sequence[int]) -> Sequence[int]:
        return ids

    def ended(self, queue: QueueState) -> None:
        self.heard.append(("ended", queue.name))

    def entered(self, domain: str, session: int, client: Ref | None, protocol: str) -> None:
        self.heard.append(("entered", domain, session, protocol))

    def left(self, client: Ref) -> None:
        self.heard.append(("left", client.path))

    def session_ended(self, domain: str, session: int) -> None:
        self.heard.append(("session ended", domain, session))

    def take(self) -> list[tuple[object, ...]]:
        heard, self.heard = self.heard, []
        return heard


@pytest.fixture
def tracing(harness: Harness) -> Tracing:
    tracing = Tracing()
    harness.directory.trace(tracing)
    return tracing


async def test_way_of_a_run_is_traced_by_its_ids(harness: Harness, tracing: Tracing) -> None:
    state, consumer = harness.queue(), harness.consumer()
    publish(state, b"1", b"2", b"3")
    assert tracing.take() == [("queued", "q", 1, [b"1", b"2", b"3"], {"q"})]
    harness.feed(state, consumer)
    (batch,) = consumer.batches
    assert tracing.take() == [("handed out", "q", [1, 2, 3], 0)]
    state.ref.tell_nowait(Settle(batch, Outcome.ACCEPT, (1,)))
    state.ref.tell_nowait(Settle(batch, Outcome.REQUEUE, (0,)))
    state.ref.tell_nowait(Settle(batch, Outcome.ACCEPT, None))
    settled = [heard for heard in tracing.take() if heard[0] == "settled"]
    assert settled == [
        ("settled", "q", [2], Outcome.ACCEPT),
        ("settled", "q", [1], Outcome.REQUEUE),
        ("settled", "q", [3], Outcome.ACCEPT),
    ]


async def test_heads_that_differ_come_along(harness: Harness, tracing: Tracing) -> None:
    state = harness.queue()
    state.ref.tell_nowait(Publish(HEAD, [b"1", b"2"], 2, heads=[HEAD, OTHER_HEAD]))
    assert tracing.take() == [("queued", "q", 1, [b"1", b"2"], {"q", "other"})]


async def test_what_leaves_otherwise_is_traced_with_its_reason(harness: Harness, tracing: Tracing) -> None:
    full = harness.queue("full", QueueOptions(max_length=1, overflow=Overflow.DROP_HEAD))
    publish(full, b"1", b"2")
    assert tracing.take()[1:] == [("removed", "full", [1], Reason.MAX_LENGTH)]
    short = harness.queue("short", QueueOptions(message_ttl=0))
    publish(short, b"1")
    assert tracing.take()[1:] == [("removed", "short", [1], Reason.EXPIRED)]
    full.ref.ask_nowait(Purge())
    assert tracing.take() == [("removed", "full", None, None)]
    harness.delete("full")
    assert tracing.take()[-1] == ("ended", "full")


async def test_stream_is_traced_by_its_offsets(harness: Harness, tracing: Tracing) -> None:
    state = harness.queue("s", QueueOptions(stream=StreamOptions()))
    publish(state, b"1", b"2")
    publish(state, b"3")
    assert [heard[:4] for heard in tracing.take()] == [("queued", "s", 0, [b"1", b"2"]), ("queued", "s", 2, [b"3"])]


async def test_chunk_that_a_stream_takes_whole_is_traced_by_its_offsets(harness: Harness, tracing: Tracing) -> None:
    state = harness.queue("s", QueueOptions(stream=StreamOptions()))
    publish(state, b"1")
    chunk = encode_chunk(0, 0, [RecordRun(0, b"", b"", b"", [b"value"] * 3)])
    state.ref.tell_nowait(PublishChunk(MovableChunk(chunk)))
    assert tracing.take()[1:] == [("appended", "s", 1, 3)]


async def test_domain_goes_on_tracing_when_its_last_observer_stops(harness: Harness, tracing: Tracing) -> None:
    observer = harness.consumer()
    harness.directory.observe_messages(observer.ref)
    harness.directory.ignore_messages(observer.ref)
    publish(harness.queue(), b"1")
    assert len(tracing.take()) == 1
