import pytest
import trio
import trio.testing
from trio.testing import MockClock

from core.harness import HEAD, Harness, publish, settle
from triomq.core import (
    Bind,
    DeclareSink,
    Enlist,
    Head,
    Outcome,
    Overflow,
    Properties,
    Publish,
    QueueMessage,
    QueueOptions,
    QueueState,
    SinkOptions,
    Target,
    encode_core,
    make_binding,
    traits_of,
)

REFUSED = Overflow.REJECT_PUBLISH_DLX


def history(harness: Harness, message: QueueMessage) -> list[dict[str, object]]:
    headers = harness.directory.codecs.decode(message).headers
    assert headers is not None
    found = headers["x-death"]
    assert isinstance(found, list)
    return found


def only(state: QueueState) -> QueueMessage:
    (entry,) = state.backlog.entries()
    return entry.message


def lettered(**options: object) -> QueueOptions:
    return QueueOptions(dead_letter_sink="", dead_letter_key="dead", **options)  # type: ignore[arg-type]


def with_properties(properties: Properties, body: bytes = b"body") -> Publish:
    encoded = encode_core(properties)
    start = len(encoded)
    head = Head(
        exchange="shop",
        routing_key="key",
        properties_stop=start,
        body_start=start,
        traits=traits_of(has_expiration=properties.expiration is not None),
    )
    return Publish(head, [encoded + body], start + len(body))


async def test_very_many_rejected_at_once_become_dead_letters_in_several_turns(harness: Harness) -> None:
    dead, state, consumer = harness.queue("dead"), harness.queue(options=lettered()), harness.consumer()
    feed = harness.feed(state, consumer)
    contents = [b"%d" % number for number in range(1_000)]
    harness.system.turn.run(state.ref.tell_nowait, Publish(HEAD, contents, sum(map(len, contents))))
    (batch,) = consumer.batches
    harness.system.turn.run(settle, batch, Outcome.REJECT)
    assert 0 < dead.backlog.ready < 500
    assert state.backlog.unsettled == 1_000 - dead.backlog.ready
    await trio.testing.wait_all_tasks_blocked()
    assert [entry.message.body for entry in dead.backlog.entries()] == contents
    assert (state.backlog.unsettled, state.rejected, state.dead_lettered) == (0, 1_000, 1_000)
    assert not any(window.used for window in feed.limits[:-1])


async def test_very_many_that_a_full_queue_refuses_become_dead_letters_in_several_turns(harness: Harness) -> None:
    dead, state = harness.queue("dead"), harness.queue(options=lettered(max_length=1, overflow=REFUSED))
    contents = [b"%d" % number for number in range(1_001)]
    harness.system.turn.run(state.ref.tell_nowait, Publish(HEAD, contents, sum(map(len, contents))))
    assert 0 < dead.backlog.ready < 500
    await trio.testing.wait_all_tasks_blocked()
    assert [entry.message.body for entry in dead.backlog.entries()] == contents[1:]
    assert (state.backlog.ready, state.dead_lettered) == (1, 1_000)


async def test_rejected_message_is_published_again_with_its_history(harness: Harness) -> None:
    dead, state, consumer = harness.queue("dead"), harness.queue(options=lettered()), harness.consumer()
    harness.feed(state, consumer)
    state.ref.tell_nowait(with_properties(Properties(type="t", headers={"mine": 1})))
    settle(consumer.batches[0], Outcome.REJECT)
    message = only(dead)
    assert (message.head.exchange, message.head.routing_key, message.body) == ("", "dead", b"body")
    properties = harness.directory.codecs.decode(message)
    assert properties.headers is not None
    assert (properties.type, properties.headers["mine"]) == ("t", 1)
    assert properties.headers["x-first-death-queue"] == "q"
    assert properties.headers["x-first-death-reason"] == "rejected"
    assert properties.headers["x-first-death-exchange"] == "shop"
    (entry,) = history(harness, message)
    del entry["time"]
    assert entry == {"count": 1, "reason": "rejected", "queue": "q", "exchange": "shop", "routing-keys": ["key"]}
    assert state.ref.ask_nowait(Enlist()).dead_lettered == 1


async def test_without_a_key_of_its_own_a_dead_letter_keeps_the_message_s(harness: Harness) -> None:
    harness.domain.ask_nowait(DeclareSink("graves", SinkOptions(internal=True)))
    graves = harness.queue("graves")
    binding = make_binding("graves", Target.QUEUE, "graves", "q")
    harness.domain.ask_nowait(Bind(binding, harness.session))
    state, consumer = harness.queue(options=QueueOptions(dead_letter_sink="graves")), harness.consumer()
    harness.feed(state, consumer)
    publish(state, b"x")
    settle(consumer.batches[0], Outcome.REJECT)
    assert (only(graves).head.exchange, only(graves).head.routing_key) == ("graves", "q")


async def test_without_a_dead_letter_sink_and_with_one_that_is_missing_messages_are_dropped(harness: Harness) -> None:
    for name, options in {"none": QueueOptions(), "missing": QueueOptions(dead_letter_sink="nowhere")}.items():
        state, consumer = harness.queue(name, options), harness.consumer()
        harness.feed(state, consumer)
        publish(state, b"x")
        settle(consumer.batches[0], Outcome.REJECT)
        assert state.statistics().unsettled == state.statistics().dead_lettered == 0


async def test_expired_message_loses_its_expiration_and_tells_what_it_was(
    harness: Harness, autojump_clock: MockClock
) -> None:
    dead, state = harness.queue("dead"), harness.queue(options=lettered())
    state.ref.tell_nowait(with_properties(Properties(expiration=1.5)))
    await trio.sleep(2)
    properties = harness.directory.codecs.decode(only(dead))
    assert properties.expiration is None
    (entry,) = history(harness, only(dead))
    assert (entry["reason"], entry["original-expiration"]) == ("expired", "1500")
    await trio.sleep(100)
    assert dead.backlog.ready == 1


async def test_two_full_queues_that_dead_letter_into_each_other_wait_for_nobody(harness: Harness) -> None:
    a = harness.queue("a", QueueOptions(max_length=1, dead_letter_sink="", dead_letter_key="b"))
    b = harness.queue("b", QueueOptions(max_length=1, dead_letter_sink="", dead_letter_key="a"))
    publish(a, *[b"x"] * 100)
    publish(b, *[b"y"] * 100)
    await trio.testing.wait_all_tasks_blocked()
    assert (a.backlog.ready, b.backlog.ready) == (1, 1)


async def test_queue_that_dead_letters_into_itself_drops_what_comes_round(harness: Harness) -> None:
    state = harness.queue("q", QueueOptions(max_length=1, dead_letter_sink=""))
    publish(state, b"1", b"2")
    assert state.backlog.ready == 1
    assert state.statistics().published == 2


@pytest.mark.parametrize("made_up", ["no list", [1, "x"], [{"queue": 5, "count": "many"}], None])
async def test_history_that_a_publisher_made_up_does_no_harm(harness: Harness, made_up: object) -> None:
    dead, state, consumer = harness.queue("dead"), harness.queue(options=lettered()), harness.consumer()
    harness.feed(state, consumer)
    state.ref.tell_nowait(with_properties(Properties(headers={"x-death": made_up, "x-first-death-queue": 7})))
    settle(consumer.batches[0], Outcome.REJECT)
    assert history(harness, only(dead))[0]["queue"] == "q"


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([None], 1), ([None, None], 3), ([None] * 3, 4), ([5, None], 6), ([None, 5], 3), ([3, 5], 4)],
)
async def test_deaths_of_one_queue_and_reason_are_merged(
    harness: Harness, counts: list[int | None], expected: int
) -> None:
    before = [{"queue": "q", "reason": "rejected"} | ({} if count is None else {"count": count}) for count in counts]
    dead, state, consumer = harness.queue("dead"), harness.queue(options=lettered()), harness.consumer()
    harness.feed(state, consumer)
    state.ref.tell_nowait(with_properties(Properties(headers={"x-death": before})))  # type: ignore[dict-item]
    settle(consumer.batches[0], Outcome.REJECT)
    (entry,) = history(harness, only(dead))
    assert entry["count"] == expected


async def test_deaths_elsewhere_are_merged_too_and_what_nobody_understands_stays(harness: Harness) -> None:
    there = {"queue": "other", "reason": "expired"}
    before = [there, {"queue": 5}, there]
    dead, state, consumer = harness.queue("dead"), harness.queue(options=lettered()), harness.consumer()
    harness.feed(state, consumer)
    state.ref.tell_nowait(with_properties(Properties(headers={"x-death": before})))  # type: ignore[dict-item]
    settle(consumer.batches[0], Outcome.REJECT)
    assert history(harness, only(dead))[1:] == [{**there, "count": 2}, {"queue": 5}]


@pytest.mark.parametrize("made_up", ["no list", [], None])
async def test_history_that_is_there_says_how_it_began_or_nobody_does(harness: Harness, made_up: object) -> None:
    dead, state, consumer = harness.queue("dead"), harness.queue(options=lettered()), harness.consumer()
    harness.feed(state, consumer)
    state.ref.tell_nowait(with_properties(Properties(headers={"x-death": made_up})))
    settle(consumer.batches[0], Outcome.REJECT)
    assert list(harness.directory.codecs.decode(only(dead)).headers or {}) == ["x-death"]


async def test_further_keys_count_again_where_the_queue_names_none(harness: Harness) -> None:
    options = QueueOptions(dead_letter_sink="")
    by_own, by_further = harness.queue("key"), harness.queue("copy")
    state, consumer = harness.queue(options=options), harness.consumer()
    harness.feed(state, consumer)
    state.ref.tell_nowait(with_properties(Properties(headers={"CC": ["copy", 5]})))
    settle(consumer.batches[0], Outcome.REJECT)
    for found in (only(by_own), only(by_further)):
        assert found.head.routing_key == "key"
        assert (harness.directory.codecs.decode(found).headers or {})["CC"] == ["copy", 5]
        assert history(harness, found)[0]["routing-keys"] == ["key", "copy"]


@pytest.mark.parametrize("keys", [["copy"], "no list"])
async def test_further_keys_are_taken_off_where_the_queue_names_one(harness: Harness, keys: object) -> None:
    dead, copy = harness.queue("dead"), harness.queue("copy")
    state, consumer = harness.queue(options=lettered()), harness.consumer()
    harness.feed(state, consumer)
    state.ref.tell_nowait(with_properties(Properties(headers={"CC": keys, "mine": 1})))
    settle(consumer.batches[0], Outcome.REJECT)
    assert copy.backlog.ready == 0
    headers = harness.directory.codecs.decode(only(dead)).headers or {}
    assert ("CC" in headers, headers["mine"]) == (False, 1)


async def test_dead_letters_lose_nothing_when_the_queue_that_they_go_to_has_crashed(harness: Harness) -> None:
    dead, state, consumer = harness.queue("dead"), harness.queue(options=lettered()), harness.consumer()
    harness.feed(state, consumer)
    publish(state, b"x", head=HEAD)

    def while_it_is_down() -> None:
        harness.crash_nowait(dead)
        settle(consumer.batches[0], Outcome.REJECT)

    harness.turn(while_it_is_down)
    assert dead.backlog.ready == 0
    await dead.ref.wait_running()
    assert only(dead).body == b"x"


async def test_position_that_is_named_twice_makes_one_dead_letter(harness: Harness) -> None:
    dead, state, consumer = harness.queue("dead"), harness.queue(options=lettered()), harness.consumer()
    harness.feed(state, consumer)
    publish(state, b"1", b"2")
    settle(consumer.batches[0], Outcome.REJECT, [0, 0])
    assert (dead.backlog.ready, state.backlog.unsettled) == (1, 1)


async def test_properties_that_nobody_can_read_cost_no_queue_its_life(harness: Harness) -> None:
    dead, state = harness.queue("dead"), harness.queue(options=lettered(max_length=0, max_priority=3))
    head = Head(exchange="shop", routing_key="q", properties_stop=2, body_start=2, traits=traits_of(has_priority=True))
    publish(state, b"\xff\xffbody", head=head)
    assert (state.ref.epoch, only(dead).body) == (1, b"body")
    assert history(harness, only(dead))[0]["exchange"] == "shop"


@pytest.mark.parametrize("count", [-5, 2**31, 2**63 - 1, 2**64 - 1, True])
async def test_count_that_a_publisher_made_up_does_not_overflow(harness: Harness, count: int) -> None:
    dead, state = harness.queue("dead"), harness.queue(options=lettered(max_length=0))
    made_up = [{"queue": "q", "reason": "maxlen", "count": count}]
    state.ref.tell_nowait(with_properties(Properties(headers={"x-death": made_up})))
    assert history(harness, only(dead))[0]["count"] in (1, 2)


async def test_circle_of_queues_whose_names_are_no_text_ends_too(harness: Harness, autojump_clock: MockClock) -> None:
    a = harness.queue("\udcff", QueueOptions(message_ttl=1, dead_letter_sink="", dead_letter_key="\udcfe"))
    b = harness.queue("\udcfe", QueueOptions(message_ttl=1, dead_letter_sink="", dead_letter_key="\udcff"))
    publish(a, b"x")
    await trio.sleep(1.5)
    assert (a.backlog.ready, b.backlog.ready) == (0, 1)
    assert history(harness, only(b))[0]["queue"] == b"\xff"
    await trio.sleep(100)
    assert (a.backlog.ready, b.backlog.ready, a.ref.epoch) == (0, 0, 1)
