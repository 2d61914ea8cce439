"""A server's side of a data flow: leases, resources, contents and what answers them."""

from math import inf

import pytest

from protocols.mtl.wire import (
    LEASE,
    MESSAGES,
    PING,
    PONG,
    TEXT_PLAIN,
    confirm,
    content,
    numbered,
    reject,
    response,
    sent,
    served,
)
from triomq.protocols import encode_table
from triomq.protocols.mtl import (
    ConfirmRun,
    ContentRun,
    ContentsRejected,
    Dismissed,
    FlowSilent,
    Frames,
    IllFormed,
    LeaseClaimed,
    MTLDataServer,
    MTLSettings,
    Summoned,
    WriterLog,
    content_suffix,
)

SUFFIX = content_suffix("resource", TEXT_PLAIN)
WRONG_TABLE = encode_table({"content-type": 7})


def summon(name: str, sequence: int = 9, kind: int = 3) -> Frames:
    octets = name.encode()
    return (bytes((kind,)) + sequence.to_bytes(8, "big") + bytes((len(octets),)) + octets, b"")


def dismiss(name: str, sequence: int = 9) -> Frames:
    return summon(name, sequence, 4)


def take(engine: MTLDataServer, *messages: Frames) -> list[int]:
    """Give an engine Contents as a driver does, and accept them; return the numbers of those that were taken."""
    taken: list[int] = []
    place = 0
    while place < len(messages):
        run = engine.receive_run(messages, place) or engine.receive(messages[place])
        place += run.count if isinstance(run, ContentRun) else 1
        if isinstance(run, ContentRun):
            engine.accept(run.sequences)
            taken += run.sequences
    return taken


# Leases


def test_lease_is_claimed_and_granted() -> None:
    engine = MTLDataServer(now=0.0)
    claim = engine.receive(MESSAGES["Lease"])
    assert claim == LeaseClaimed(1, "abc123")
    assert isinstance(claim, LeaseClaimed)
    engine.grant(claim, "reader", (), confirm="none")
    assert sent(engine) == [MESSAGES["Response"]]


def test_same_lease_again_is_no_fault_and_another_one_is() -> None:
    engine = served()
    assert engine.receive((numbered(LEASE, 7), b"")) is None
    assert engine.receive((numbered(LEASE, 8)[:-1] + b"4", b"")) is None
    assert sent(engine) == [response(7, 200), response(8, 403)]


def test_lease_that_is_refused_may_be_claimed_again() -> None:
    engine = MTLDataServer(now=0.0)
    engine.receive(MESSAGES["Lease"])
    engine.respond(1, 403)
    assert (engine.state, sent(engine)) == ("unleased", [response(1, 403)])
    assert engine.receive(MESSAGES["Lease"]) == LeaseClaimed(1, "abc123")


def test_peer_without_a_lease_is_refused_and_gets_no_pong() -> None:
    engine = MTLDataServer(now=0.0)
    for message in (summon("a", 1), dismiss("a", 2), content(3), content(4, table=WRONG_TABLE)):
        assert engine.receive(message) is None
    assert sent(engine) == [response(sequence, 403) for sequence in (1, 2, 3, 4)]
    for message in (confirm(1), reject(1), (PING, b""), (PONG, b""), response(1, 200)):
        assert engine.receive(message) == IllFormed("unasked")
    assert sent(engine) == []


# Resources


def test_resource_is_summoned_and_dismissed_in_turn() -> None:
    engine = served("reader")
    event = engine.receive(summon("resource", 5))
    assert event == Summoned(5, "resource")
    assert engine.receive(summon("resource", 5)) == event  # nothing has changed before the answer
    engine.answer(event)  # type: ignore[arg-type]
    assert engine.receive(summon("resource", 6)) is None  # "MAY NOT summon the same resource twice"
    left = engine.receive(dismiss("resource", 7))
    assert left == Dismissed(7, "resource")
    engine.answer(left)  # type: ignore[arg-type]
    assert engine.receive(dismiss("resource", 8)) is None
    assert engine.receive(summon("resource", 9)) == Summoned(9, "resource")
    assert sent(engine) == [response(5, 200), response(6, 400), response(7, 200), response(8, 400)]


def test_summon_that_is_refused_summons_nothing() -> None:
    engine = served("reader")
    engine.answer(Summoned(5, "resource"), 400)
    assert engine.receive(summon("resource", 6)) == Summoned(6, "resource")
    engine.answer(Summoned(6, "resource"))
    engine.answer(Dismissed(7, "resource"), 400)
    assert engine.receive(dismiss("resource", 8)) == Dismissed(8, "resource")
    engine.end_resource("resource")
    assert engine.receive(summon("resource", 9)) == Summoned(9, "resource")


@pytest.mark.parametrize(
    ("resources", "name", "meant"),
    [
        (("one",), "", "one"),
        (("one",), "one", "one"),
        (("one",), "two", None),
        (("one", "two"), "two", "two"),
        (("one", "two"), "", None),
        ((), "any", "any"),
        ((), "", None),
    ],
)
def test_name_is_of_the_lease_and_may_be_left_out_where_there_is_one(
    resources: tuple[str, ...], name: str, meant: str | None
) -> None:
    engine = served("reader", resources=resources)
    assert engine.receive(summon(name, 5)) == (None if meant is None else Summoned(5, meant))
    assert sent(engine) == ([response(5, 400)] if meant is None else [])
    writer = served("writer", "none", resources)
    run = writer.receive(content(6, resource=name.encode()))
    assert (run.resource if isinstance(run, ContentRun) else None) == meant
    assert sent(writer) == ([response(6, 403 if name else 400)] if meant is None else [])


def test_resources_that_are_summoned_are_bounded() -> None:
    engine = served("reader", resources=(), settings=MTLSettings(most_summons=2))
    for number in range(2):
        engine.answer(Summoned(number, str(number)))
    assert engine.receive(summon("2")) is None
    assert sent(engine)[-1] == response(9, 400)


def test_writer_summons_nothing() -> None:
    engine = served("writer")
    assert engine.receive(summon("resource", 5)) is None
    assert engine.receive(dismiss("resource", 6)) is None
    assert sent(engine) == [response(5, 400), response(6, 400)]


# Contents that come


def test_contents_are_taken_and_confirmed_at_once() -> None:
    engine = served()
    messages = [content(sequence, b"%d" % sequence) for sequence in (1, 2, 5)]
    run = engine.receive_run(messages, 0)
    assert isinstance(run, ContentRun)
    assert (run.resource, run.sequences, run.bodies) == ("resource", [1, 2, 5], [b"1", b"2", b"5"])
    assert (list(run.tables), run.kind.table) == ([TEXT_PLAIN] * 3, TEXT_PLAIN)
    engine.accept(run.sequences)
    engine.confirm_contents(run.sequences)
    assert sent(engine) == [confirm(5, multiple=True)]


def test_repeated_content_is_answered_as_before_and_never_taken_twice() -> None:
    engine = served()
    assert take(engine, content(1), content(2), content(3)) == [1, 2, 3]
    engine.reject_contents([1], recycle=True)
    engine.confirm_contents([2])
    assert sent(engine) == [reject(1, recycle=True), confirm(2)]
    assert take(engine, content(1), content(2), content(3), content(4)) == [4]
    assert sent(engine) == [reject(1, recycle=True), confirm(2)]  # 3 is pending


def test_content_repeated_within_one_turn_is_taken_once() -> None:
    engine = served()
    run = engine.receive_run([content(1), content(2)], 0)
    assert isinstance(run, ContentRun)
    assert engine.receive_run([content(2)], 0) is None
    assert engine.receive(content(2)) is None
    engine.accept(run.sequences)
    assert (take(engine, content(2)), sent(engine)) == ([], [])


def test_contents_that_are_put_back_come_again() -> None:
    engine = served()
    messages = [content(1), content(2)]
    first = engine.receive_run(messages, 0)
    engine.put_back()
    assert engine.receive_run(messages, 0) == first
    engine.put_back()
    assert [event.sequences for event in map(engine.receive, messages)] == [[1], [2]]  # type: ignore[union-attr]


def test_content_that_is_wrong_among_those_that_are_not_accepted_loses_none() -> None:
    engine = served()
    first = engine.receive_run([content(1), content(2)], 0)
    assert isinstance(first, ContentRun)
    assert engine.receive(content(3, resource=b"other")) is None
    engine.put_back()
    assert take(engine, content(1), content(2), content(3), content(4)) == [1, 2, 4]
    engine.confirm_contents([1, 2, 4])
    assert sent(engine) == [reject(3), reject(3), confirm(4, multiple=True)]


def test_content_that_was_not_accepted_is_refused_and_one_that_was_is_answered_as_before() -> None:
    engine = served()
    assert take(engine, content(1), content(2)) == [1, 2]
    engine.confirm_contents([1])
    for sequence in (1, 2, 3):
        engine.refuse_content(sequence, 503, recycle=True)
    engine.refuse_content(0, 503)
    assert sent(engine) == [confirm(1), confirm(1), reject(3, recycle=True)]
    engine.confirm_contents([2])
    assert sent(engine) == [confirm(2)]


def test_old_flow_of_a_lease_that_comes_to_its_end_late_takes_nothing_twice() -> None:
    log = WriterLog()
    old, new = served(log=log), served(log=log)
    assert take(old, content(1), content(2)) == [1, 2]
    assert take(new, content(1), content(2), content(3)) == [3]


def test_lease_goes_on_in_another_flow_where_the_log_goes_with_it() -> None:
    log = WriterLog()
    engine = served(log=log)
    take(engine, content(1), content(2), content(3), content(4))
    engine.reject_contents([2], recycle=True)
    engine.confirm_contents([1])
    sent(engine)
    after = MTLDataServer(now=0.0)
    after.grant(LeaseClaimed(1, "abc123"), "writer", ["resource"], confirm="full", log=log)
    assert sent(after) == [response(1, 200), reject(2, recycle=True)]
    assert take(after, content(3), content(4), content(5)) == [5]
    after.confirm_contents([3, 4, 5])
    assert sent(after) == [confirm(5, multiple=True)]


def test_numbers_mean_nothing_where_nothing_is_confirmed() -> None:
    engine = served(confirm="none")
    assert take(engine, content(7), content(7), content(1)) == [7, 7, 1]
    engine.confirm_contents([7, 1])
    engine.reject_contents([7], recycle=True)
    assert sent(engine) == []


WRONG: list[tuple[Frames, int]] = [
    (content(5, resource=b"other"), 403),
    (content(5, bytes(101)), 413),
    (content(5, table=WRONG_TABLE), 400),
    (content(5, table=encode_table({"x": "y" * 1000})), 413),
    (content(5, table=b"\xff" * 1000), 413),
    (content(5, table=encode_table({"headers": {str(number): True for number in range(20)}})), 413),
    (content(5, table=encode_table({"x": [None] * 20})), 413),
]


@pytest.mark.parametrize(("message", "code"), WRONG)
def test_content_that_is_wrong_is_rejected_or_answered_with_a_code(message: Frames, code: int) -> None:
    settings = MTLSettings(max_message_size=100, longest_header=1000, most_fields=20)
    for confirmed in (True, False):
        engine = served(confirm="full" if confirmed else "none", settings=settings)
        assert engine.receive_run([message], 0) is None
        assert engine.receive(message) is None
        assert sent(engine) == [reject(5) if confirmed else response(5, code)]
        if confirmed:
            assert take(engine, content(5), content(6)) == [6]


def test_content_on_a_readers_lease_is_rejected_or_answered_with_a_code() -> None:
    for confirmed in (True, False):
        engine = served("reader", "full" if confirmed else "none")
        for message in (content(5), content(6, table=WRONG_TABLE)):
            assert engine.receive_run([message], 0) is None
            assert engine.receive(message) is None
        assert sent(engine) == [reject(n) if confirmed else response(n, 403) for n in (5, 6)]


def test_content_that_its_owner_refuses_is_answered_likewise() -> None:
    for confirmed in (True, False):
        engine = served(confirm="full" if confirmed else "none")
        engine.receive(content(5))
        engine.refuse_content(5, 404)
        assert sent(engine) == [reject(5) if confirmed else response(5, 404)]


# Contents that go


def test_contents_are_numbered_from_one() -> None:
    engine = served("reader")
    assert engine.send_contents(SUFFIX, [b"a", b"b"]) == 1
    assert engine.send_each([SUFFIX, content_suffix("", b"\0\0\0\0")], [b"c", b"d"]) == 3
    assert sent(engine) == [
        content(1, b"a"),
        content(2, b"b"),
        content(3, b"c"),
        content(4, b"d", resource=b"", table=b"\0\0\0\0"),
    ]


def delivering(count: int = 5) -> MTLDataServer:
    engine = served("reader")
    engine.send_contents(SUFFIX, [b"x"] * count)
    sent(engine)
    return engine


def test_confirms_in_a_row_are_one_event() -> None:
    engine = delivering()
    messages = [confirm(2), confirm(3, multiple=True), confirm(5), confirm(99), confirm(0), reject(4)]
    assert engine.receive_run(messages, 0) == ConfirmRun(3, [2, 5], 3)
    assert [engine.receive_run(messages, place) for place in (3, 4, 5)] == [None] * 3
    assert engine.receive(messages[5]) == ContentsRejected(4, False, False)
    assert engine.receive(reject(4, multiple=True, recycle=True)) == ContentsRejected(4, True, True)


def test_confirm_of_the_highest_number_is_of_all_that_were_sent() -> None:
    highest = (1 << 64) - 1
    for message in (confirm(highest, multiple=True), reject(highest, multiple=True)):
        engine = delivering()
        event = engine.receive(message)
        assert event in (ConfirmRun(5, [], 1), ContentsRejected(5, True, False))
    assert delivering().receive_run([confirm(highest, multiple=True)], 0) == ConfirmRun(5, [], 1)


@pytest.mark.parametrize("message", [confirm(6), confirm(0), reject(6), reject(0), confirm(0, multiple=True)])
def test_confirm_of_what_was_never_sent_is_passed_over(message: Frames) -> None:
    assert delivering().receive(message) == IllFormed("unasked")


def test_confirm_of_what_is_not_confirmed_is_passed_over() -> None:
    reader, writer = served("reader", "none"), served("writer")
    reader.send_contents(SUFFIX, [b"x"])
    for engine in (reader, writer):
        assert engine.receive_run([confirm(1)], 0) is None
        assert engine.receive(confirm(1)) == IllFormed("unasked")
        assert engine.receive(reject(1)) == IllFormed("unasked")


# Time


def test_ping_is_answered_and_bounded() -> None:
    engine = served()
    engine.handle_timer(0.0)
    for _ in range(100):
        engine.receive((PING, b""))
    assert sent(engine) == [(PONG, b"")] * 25
    engine.handle_timer(2.5)
    engine.receive((PING, b"with a body"))
    assert sent(engine) == [(PONG, b"")]


def test_own_silence_is_broken_by_a_ping_and_pong_belongs_to_it() -> None:
    engine = served()
    assert engine.receive((PONG, b"")) == IllFormed("unasked")
    for now in (0.0, 2.5, 5.0):
        engine.handle_timer(now)
    assert sent(engine) == [(PING, b"")]
    assert engine.receive((PONG, b"")) is None
    assert engine.receive((PONG, b"")) == IllFormed("unasked")


def test_silence_ends_the_flow_and_any_message_is_life() -> None:
    engine = served()
    ended = None
    for tick in range(20):
        if tick == 4:
            engine.receive((b"\xff", b""))
        if ended is None and engine.handle_timer(tick * 2.5) is not None:
            ended = tick * 2.5
    assert (ended, engine.state) == (25.0, "closed")
    assert engine.next_timer() is None
    sent(engine)
    assert (engine.receive(content(1)), engine.receive_run([content(1)], 0), sent(engine)) == (None, None, [])


def test_flow_without_a_lease_has_no_timers() -> None:
    engine = MTLDataServer(now=3.0)
    assert (engine.next_timer(), engine.handle_timer(100.0), sent(engine)) == (None, None, [])
    assert served().next_timer() == 0.0


def test_flow_without_heartbeats_answers_pings_all_the_same() -> None:
    engine = served(settings=MTLSettings(heartbeat=inf, silence=inf))
    assert engine.handle_timer(1e9) is None
    for _ in range(100):
        engine.receive((PING, b""))
    assert len(sent(engine)) == 100


def test_representations_show_no_token() -> None:
    assert "abc123" not in repr(LeaseClaimed(1, "abc123"))
    assert repr(FlowSilent()) == "FlowSilent()"
