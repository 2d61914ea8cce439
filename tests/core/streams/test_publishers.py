"""Publishers with numbers: what is sent again is stored once, for as long as the stream exists."""

from collections.abc import Callable

import pytest

from core.durable import DurableHarness, open_durable_harness
from core.harness import Harness
from core.streams.test_stream import read
from memory_store import MemoryStore
from triomq.core import (
    AskBounds,
    Head,
    Properties,
    Publish,
    QueueOptions,
    QueueState,
    Receipt,
    Session,
    StreamOptions,
    core_message,
)
from triomq.properties import HeaderValue

OPTIONS = QueueOptions(stream=StreamOptions(deduplicate=True))


def numbered(number: HeaderValue, publisher: HeaderValue = "p") -> tuple[Head, bytes]:
    headers = {"x-publisher": publisher, "x-publisher-number": number}
    return core_message("", "s", b"%a" % number, Properties(headers=headers), publisher=1)


def send(state: QueueState, *messages: tuple[Head, bytes]) -> Receipt:
    """Publish messages as one run; return its receipt."""
    heads, contents = [head for head, _ in messages], [content for _, content in messages]
    receipt = Receipt(1, len(messages), len(messages), lambda: None)
    state.ref.tell_nowait(Publish(heads[0], contents, sum(map(len, contents)), receipt, heads=heads))
    return receipt


def numbers(state: QueueState, harness: Harness, work: Callable[[], None] = lambda: None) -> list[bytes]:
    _, consumer = read(harness, state)
    work()
    return [batch.message(position).body for batch in consumer.batches for position in range(len(batch.contents))]


async def test_what_is_sent_again_is_confirmed_and_not_stored(harness: Harness) -> None:
    state = harness.queue("s", OPTIONS)
    send(state, numbered(1), numbered(2), numbered(2), numbered(5, "other"))
    receipt = send(state, numbered(2), numbered(3), numbered(5, "other"), numbered(-1, "third"))
    assert not receipt.missing
    assert receipt.refusals is None
    assert not send(state, numbered(3)).missing
    assert numbers(state, harness) == [b"1", b"2", b"5", b"3", b"-1"]


async def test_records_without_name_and_number_are_all_stored(harness: Harness) -> None:
    state = harness.queue("s", OPTIONS)
    odd = [numbered(True), numbered("1"), numbered(1, 7), numbered(1 << 63), numbered(1, "x" * 256)]
    plain = core_message("", "s", b"plain", Properties(), publisher=1)
    send(state, *odd, plain)
    send(state, *odd, plain)
    assert state.ref.ask_nowait(AskBounds()).stop == 12


async def test_streams_that_do_not_ask_for_it_store_everything(harness: Harness) -> None:
    state = harness.queue("s", QueueOptions(stream=StreamOptions()))
    send(state, numbered(1), numbered(1))
    assert state.ref.ask_nowait(AskBounds()).stop == 2


async def test_number_of_known_publishers_is_bounded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.core.streams.publishers.MOST_PUBLISHERS", 2)
    state = harness.queue("s", OPTIONS)
    send(state, numbered(1, "a"), numbered(1, "b"))
    send(state, numbered(2, "a"))
    send(state, numbered(1, "c"))  # in the place of b
    send(state, numbered(2, "a"), numbered(1, "c"))
    assert state.ref.ask_nowait(AskBounds()).stop == 4
    send(state, numbered(1, "b"))
    assert state.ref.ask_nowait(AskBounds()).stop == 5


async def test_record_and_number_are_on_disk_together() -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        state = durable.harness.queue("s", OPTIONS)
        send(state, numbered(1), numbered(2))
        durable.disk.work()
        send(state, numbered(3))  # is lost
    async with open_durable_harness(store) as durable:
        state = durable.harness.directory.queues["s"]
        send(state, numbered(2), numbered(3))
        durable.disk.work()
        assert numbers(durable.harness.directory.queues["s"], durable.harness, durable.disk.work) == [b"1", b"2", b"3"]
        durable.harness.delete("s")
        state = durable.harness.queue("s", OPTIONS)
        send(state, numbered(1))
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        assert numbers(durable.harness.directory.queues["s"], durable.harness, durable.disk.work) == [b"1"]


async def test_confirm_of_what_was_sent_again_waits_for_the_first_one(durable: DurableHarness) -> None:
    state = durable.harness.queue("s", OPTIONS)
    durable.disk.work()
    first, again = send(state, numbered(1)), send(state, numbered(1))
    assert again.number == first.number > durable.disk.journal.committed
    durable.disk.work()
    assert again.number <= durable.disk.journal.committed
    later = send(state, numbered(1))
    assert later.number <= durable.disk.journal.committed


async def test_publishers_are_their_users_and_give_way_to_their_own(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triomq.core.streams.publishers.MOST_PUBLISHERS", 4)
    state = harness.queue("s", OPTIONS)
    eve, bob = (Session(harness.domain, harness.directory, user=user) for user in ("eve", "bob"))

    def send_as(session: Session, number: int, publisher: str) -> None:
        headers: dict[str, HeaderValue] = {"x-publisher": publisher, "x-publisher-number": number}
        body = b"%s-%d" % (session.user.encode(), number)
        send(state, core_message("", "s", body, Properties(headers=headers), publisher=session.number))

    send_as(eve, 1 << 62, "p")
    send_as(bob, 1, "p")
    for name in range(10):
        send_as(eve, 1, f"e{name}")
    send_as(bob, 1, "p")
    send_as(bob, 2, "p")
    found = [body for body in numbers(state, harness) if body.startswith(b"bob")]
    assert found == [b"bob-1", b"bob-2"]
    bob.attach()
    bob.detach()
    assert harness.directory.user_of(bob.number) == ""
