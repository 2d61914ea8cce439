"""Policies: which one applies, what holds under it, and what becomes of queues and sinks that are there."""

from collections.abc import Sequence

import msgspec
import pytest
import trio
from trio.testing import MockClock

from core.harness import Harness, publish, ready
from triomq.core import (
    AppliesTo,
    DeclareQueue,
    Get,
    Inequivalent,
    Overflow,
    Policies,
    Policy,
    PolicyOptions,
    QueueOptions,
    SetPolicies,
    SinkKind,
    SinkOptions,
    StreamOptions,
)
from triomq.core.queue.deadletter import MOST_DEAD_LETTERS
from triomq.core.streams.log import StreamLog
from triomq.core.streams.retention import IN_MEMORY, RetentionLimits
from triomq.core.topology.policy import queue_options, sink_options
from triomq.errors import PreconditionFailed


def policy(
    pattern: str = ".*", *, priority: int = 0, to: AppliesTo = AppliesTo.ALL, name: str = "p", **options: object
) -> Policy:
    return Policy(name, pattern, PolicyOptions(**options), to, priority)  # type: ignore[arg-type]


def apply_policy(harness: Harness, *policies: Policy) -> int:
    return harness.domain.ask_nowait(SetPolicies(policies)).changed


def numbers(count: int) -> Sequence[bytes]:
    return [b"%d" % number for number in range(count)]


def test_highest_priority_holds_and_the_first_of_equals() -> None:
    low, first, second = policy("a"), policy("a", priority=2), policy("a", priority=2)
    other = policy("b", priority=9)
    policies = Policies([low, first, second, other])
    assert policies.of_queue("a", QueueOptions()) is first
    assert policies.of_sink("ab") is other
    assert policies.of_queue("c", QueueOptions()) is None
    assert policies.all == (low, first, second, other)


def test_pattern_is_found_anywhere_unless_it_says_where() -> None:
    policies = Policies([policy(r"^log\.", name="logs"), policy("shop", name="shop")])
    found = [policies.of_queue(name, QueueOptions()) for name in ("log.a", "a.log.", "my.shop")]
    assert [policy and policy.name for policy in found] == ["logs", None, "shop"]


def test_policy_may_be_about_queues_or_sinks_alone() -> None:
    queues, sinks = policy(to=AppliesTo.QUEUES), policy(to=AppliesTo.SINKS)
    policies = Policies([queues, sinks])
    assert (policies.of_queue("a", QueueOptions()), policies.of_sink("a")) == (queues, sinks)


def test_pattern_that_is_no_regular_expression_is_refused_with_its_place() -> None:
    with pytest.raises(PreconditionFailed) as refused:
        policy("a(b", name="bad")
    assert str(refused.value) == (
        "the pattern 'a(b' of policy 'bad' is no regular expression: missing ), unterminated subpattern at position 1"
    )


def test_of_two_numbers_the_smaller_one_holds() -> None:
    for option in ("max_length", "max_bytes", "message_ttl", "expires", "delivery_limit"):
        for declared, said, effective in ((None, 5, 5), (3, 5, 3), (5, 3, 3), (3, None, 3)):
            found = queue_options(QueueOptions(**{option: declared}), policy(**{option: said}))  # type: ignore[arg-type]
            assert getattr(found, option) == effective


def test_anything_else_holds_as_declared_if_it_was() -> None:
    said = policy(dead_letter_sink="theirs", dead_letter_key="k", overflow=Overflow.REJECT_PUBLISH, alternate="theirs")
    found = queue_options(QueueOptions(dead_letter_sink="ours", overflow=Overflow.WAIT), said)
    assert found == QueueOptions(dead_letter_sink="ours", dead_letter_key="k", overflow=Overflow.WAIT)
    assert queue_options(QueueOptions(), said).overflow is Overflow.REJECT_PUBLISH
    assert sink_options(SinkOptions(alternate="ours"), said).alternate == "ours"
    assert sink_options(SinkOptions(), said) == SinkOptions(alternate="theirs")
    assert sink_options(SinkOptions(), policy(max_length=1)) == SinkOptions()


@pytest.mark.parametrize(
    ("declared", "said", "effective"),
    [
        (StreamOptions(), {}, StreamOptions()),
        (StreamOptions(), {"max_age": 5.0, "segment_bytes": 10}, StreamOptions(5.0, 10)),
        (StreamOptions(3.0, 8), {"max_age": 5.0, "segment_bytes": 10}, StreamOptions(3.0, 8)),
        (StreamOptions(9.0, 80, "p"), {"max_age": 5.0, "segment_bytes": 10}, StreamOptions(5.0, 10, "p")),
        (StreamOptions(0.0), {"max_age": 5.0}, StreamOptions(5.0)),
        (StreamOptions(), {"segment_bytes": 2**31}, StreamOptions(None, 2**31)),
    ],
)
def test_stream_has_the_smaller_age_and_segment_and_follows_a_segment_if_it_was_declared_without(
    declared: StreamOptions, said: dict[str, object], effective: StreamOptions
) -> None:
    assert queue_options(QueueOptions(stream=declared), policy(**said)).stream == effective  # type: ignore[arg-type]
    assert queue_options(QueueOptions(), policy(**said)).stream is None  # type: ignore[arg-type]


def test_policy_may_be_about_one_type_of_queues() -> None:
    classic, stream = QueueOptions(), QueueOptions(stream=StreamOptions())
    quorum = QueueOptions(notes=(("x-queue-type", "quorum"),))
    by_kind = {
        AppliesTo.CLASSIC_QUEUES: [classic],
        AppliesTo.QUORUM_QUEUES: [quorum],
        AppliesTo.STREAMS: [stream],
        AppliesTo.QUEUES: [classic, quorum, stream],
        AppliesTo.ALL: [classic, quorum, stream],
        AppliesTo.SINKS: [],
    }
    for kind, covered in by_kind.items():
        policies = Policies([policy(to=kind)])
        assert [one for one in (classic, quorum, stream) if policies.of_queue("q", one) is not None] == covered
        assert (policies.of_sink("q") is not None) is (kind in (AppliesTo.SINKS, AppliesTo.ALL))


def test_operators_policy_holds_beside_the_other() -> None:
    own = policy(max_length=5, message_ttl=9.0, overflow=Overflow.DROP_HEAD, dead_letter_sink="d", name="own")
    limits = PolicyOptions(max_length=8, message_ttl=3.0, expires=60.0, overflow=Overflow.REJECT_PUBLISH)
    operator = Policy("op", "q", limits, operator=True)
    found = Policies([operator, own]).of_queue("q", QueueOptions())
    assert found is not None
    both = msgspec.structs.replace(limits, max_length=5, dead_letter_sink="d")
    assert (found.name, found.options) == ("own", both)
    assert Policies([operator]).of_queue("q", QueueOptions()) is operator
    assert Policies([operator, own]).of_queue("other", QueueOptions()) is own
    assert Policies([operator]).of_sink("q") is None


@pytest.mark.parametrize(
    ("declared", "said", "effective"), [(None, 5, 5), (3, 5, 3), (0, 5, 5), (5, 0, 5), (0, None, 0)]
)
def test_time_of_consumers_is_the_smaller_one_and_0_is_none(
    declared: int | None, said: int | None, effective: int | None
) -> None:
    found = queue_options(QueueOptions(consumer_timeout=declared), policy(consumer_timeout=said))
    assert found.consumer_timeout == effective


async def test_policy_about_streams_drops_old_records_at_once_and_goes_again(harness: Harness) -> None:
    state = harness.queue("s", QueueOptions(stream=StreamOptions(segment_bytes=20)))
    log = state.backlog
    assert isinstance(log, StreamLog)
    for second in range(10):
        log.wall = lambda second=second: float(second)  # type: ignore[misc]
        publish(state, b"x" * 100)
    assert log.base == 0
    assert apply_policy(harness, policy(max_age=5.0)) == 1
    assert log.base == 5  # the newest one is of second 9; that of second 4 is five seconds old
    assert apply_policy(harness, policy(segment_bytes=1000)) == 1
    assert log.segments.limits == RetentionLimits(IN_MEMORY, 0, 0, 20)
    assert harness.queue("s", QueueOptions(stream=StreamOptions(segment_bytes=20))) is state


async def test_policy_applies_to_what_is_there_and_to_what_comes(harness: Harness) -> None:
    there = harness.queue("a")
    assert apply_policy(harness, policy("^(a|b)$", max_length=2)) == 1
    comes = harness.queue("b", QueueOptions(max_length=1))
    harness.queue("c")
    for queue, kept in ((there, 2), (comes, 1)):
        publish(queue, *numbers(5))
        assert len(ready(queue)) == kept
    assert [queue.policy is not None for queue in harness.directory.queues.values()] == [True, True, False]
    assert apply_policy(harness) == 1
    assert there.options == QueueOptions()
    publish(there, *numbers(5))
    assert len(ready(there)) == 7


async def test_policies_that_change_nothing_say_so(harness: Harness) -> None:
    queue = harness.queue("q", QueueOptions(max_length=1))
    version = harness.directory.version
    assert apply_policy(harness, policy(max_length=2, name="first")) == 0
    assert apply_policy(harness, policy(max_length=3, name="second")) == 0
    assert queue.policy is not None
    assert queue.policy.name == "second"
    assert harness.directory.version == version


async def test_second_declare_is_compared_with_what_was_declared(harness: Harness) -> None:
    queue = harness.queue("q", QueueOptions(max_length=10))
    harness.sink("s")
    apply_policy(harness, policy(max_length=3, alternate="lost"))
    assert harness.queue("q", QueueOptions(max_length=10)) is queue
    harness.sink("s")
    with pytest.raises(Inequivalent):
        harness.queue("q", QueueOptions(max_length=3))
    with pytest.raises(Inequivalent):
        harness.sink("s", alternate="lost")


async def test_limit_that_comes_sheds_at_once_and_one_that_goes_lets_messages_in(harness: Harness) -> None:
    queue, dead = harness.queue("q"), harness.queue("dead")
    publish(queue, *numbers(10))
    apply_policy(harness, policy("^q$", max_length=3, dead_letter_sink="", dead_letter_key="dead"))
    assert ready(queue) == numbers(10)[7:]
    assert (queue.dropped, dead.backlog.ready) == (7, 7)
    apply_policy(harness, policy("^q$", max_length=3, overflow=Overflow.REJECT_PUBLISH))
    publish(queue, b"refused")
    assert ready(queue) == numbers(10)[7:]
    apply_policy(harness)
    publish(queue, b"stored")
    assert ready(queue)[-1] == b"stored"


async def test_so_many_that_give_way_do_so_in_several_turns(harness: Harness, autojump_clock: MockClock) -> None:
    queue, dead = harness.queue("q"), harness.queue("dead")
    publish(queue, *numbers(3 * MOST_DEAD_LETTERS))
    apply_policy(harness, policy("^q$", max_length=1, dead_letter_sink="", dead_letter_key="dead"))
    assert queue.backlog.ready == 2 * MOST_DEAD_LETTERS
    await trio.sleep(0.01)
    assert (queue.backlog.ready, dead.backlog.ready) == (1, 3 * MOST_DEAD_LETTERS - 1)


async def test_time_to_live_counts_for_messages_that_come_from_then_on(
    harness: Harness, autojump_clock: MockClock
) -> None:
    queue = harness.queue()
    publish(queue, b"before")
    apply_policy(harness, policy(message_ttl=1.0))
    publish(queue, b"after")
    await trio.sleep(2)
    apply_policy(harness)
    publish(queue, b"later")
    await trio.sleep(2)
    taken = [batch.contents[0] for _ in range(2) if (batch := queue.ref.ask_nowait(Get())) is not None]
    assert taken == [b"before", b"later"]
    assert queue.expired == 1


async def test_queue_goes_that_nobody_has_used_since_the_policy_came(
    harness: Harness, autojump_clock: MockClock
) -> None:
    harness.queue("q")
    await trio.sleep(10)
    apply_policy(harness, policy(expires=3.0))
    await trio.sleep(2)
    assert "q" in harness.directory.queues
    await trio.sleep(2)
    assert "q" not in harness.directory.queues


async def test_queue_stays_from_which_the_policy_was_taken_in_time(harness: Harness, autojump_clock: MockClock) -> None:
    harness.queue("q")
    apply_policy(harness, policy(expires=3.0))
    await trio.sleep(2)
    apply_policy(harness)
    await trio.sleep(5)
    assert "q" in harness.directory.queues


async def test_alternate_by_policy_takes_what_is_lost_and_kept_routes_are_looked_up_again(harness: Harness) -> None:
    harness.sink("lost", SinkKind.FANOUT)
    harness.queue("q")
    harness.bind("lost", "q")
    harness.sink("s")
    version = harness.directory.version
    assert not harness.directory.route("s", "k", dict).queues
    apply_policy(harness, policy("^s$", alternate="lost", to=AppliesTo.SINKS))
    assert harness.directory.version > version
    assert len(harness.directory.route("s", "k", dict).queues) == 1
    apply_policy(harness)
    assert not harness.directory.route("s", "k", dict).queues


async def test_policies_outlive_a_domain_that_crashes(harness: Harness, quiet_crashes: None) -> None:
    queue = harness.queue("q")
    apply_policy(harness, policy(max_length=2))
    harness.domain.tell_nowait(DeclareQueue("poison", None, harness.session))  # type: ignore[arg-type]
    await trio.testing.wait_all_tasks_blocked()
    await harness.domain.wait_running()
    publish(queue, *numbers(5))
    assert len(ready(queue)) == 2


async def test_queue_that_is_being_restarted_lives_by_the_new_policy_then(harness: Harness) -> None:
    queue = harness.queue("q")

    def crash_and_govern() -> None:
        harness.crash_nowait(queue)
        harness.domain.tell_nowait(SetPolicies((policy(max_length=2),)))

    harness.turn(crash_and_govern)
    await queue.ref.wait_running()
    publish(queue, *numbers(5))
    assert len(ready(queue)) == 2
