"""A few thousand generated direct conversations, always the same ones; `.ci/run` has more of them."""

from random import Random

import pytest

from . import dmp_broker, dmp_engine
from .dmp_floods import FLOODS, flood
from .dmp_oracle import Message, judge
from .dmp_trial import Input, Side, check, check_answers, check_events, check_same, run
from .dmp_words import PLAIN, message, opening
from .loop import Violation

ONE = message(b"e", b"k", PLAIN, 0, b"hello")
OPENING = b"".join(opening("server"))


def test_a_few_thousand_conversations_come_to_what_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert dmp_engine.main(["--inputs", "3000", "--seed", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3000 inputs in ")
    for ending in ("server of a sink: failed 502", "server of a sink: failed 530", "client of a feed: reading"):
        assert any(line.endswith(ending) for line in lines)


def test_a_broker_survives_them_and_a_healthy_client_notices_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert dmp_broker.main(["--inputs", "300", "--seed", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("300 inputs in ")
    for ending in ("sink: 502", "sink: all was read", "feed: messages", "402 to the lease"):
        assert any(line.endswith(ending) for line in lines)


@pytest.mark.parametrize("name", FLOODS)
def test_whatever_comes_for_long_takes_bounded_room(name: str) -> None:
    assert flood(Random(name), name) == f"flood: {name}"


def test_an_input_is_the_same_whenever_it_is_asked_for() -> None:
    assert [dmp_engine.one(3, number) for number in range(50)] == [dmp_engine.one(3, number) for number in range(50)]


# The checks themselves: each sees what it is there for.


def served(data: bytes) -> Side:
    return run(Input("server", "sink", "accept", OPENING + data), [OPENING + data])


@pytest.mark.parametrize(
    ("data", "found", "ending"),
    [
        (ONE + bytes(4) + ONE[:9], 1, "reading"),
        (ONE + ONE[:3] + b"\x0e" + ONE[4:] + b"\0" * 9, 1, "failed 502"),
        (ONE[:3] + bytes((ONE[3] + 1,)) + ONE[4:] + b"?", 0, "failed 502"),
        (b"\0\0\0\x07" + bytes(7), 0, "failed 502"),
        (b"\0\0\x20\0", 0, "failed 530"),
        (message(b"", b"", b"\0\x01", 0, b""), 0, "failed 502"),
        (message(b"", b"", b"\x20\0\0\0\0\x03\x01a?", 0, b""), 0, "failed 502"),
    ],
)
def test_the_simplest_way_to_read_finds_what_there_is(data: bytes, found: int, ending: str) -> None:
    verdict = judge("server", "sink", True, OPENING + data)
    assert verdict == ([Message(b"e", b"k", PLAIN, 0, b"hello")] * found, ending)
    check(served(data))


def test_messages_that_are_told_wrongly_are_seen() -> None:
    side = served(ONE + ONE)
    side.events.pop()
    with pytest.raises(Violation, match="to be expected was"):
        check(side)
    with pytest.raises(Violation, match="octet by octet it came to reading"):
        check_same(served(ONE), served(ONE + ONE), "octet by octet")


def test_words_after_the_end_are_seen() -> None:
    side = served(b"\0\0\0\x01")
    check_events(side.events)
    with pytest.raises(Violation, match="after Failed"):
        check_events([*side.events, *side.events])
    said = b"".join(side.said)
    check_answers(said, "sink")
    with pytest.raises(Violation, match=r"after b'502 SYNTAX-ERROR.* came"):
        check_answers(said + bytes(4), "sink")
    with pytest.raises(Violation, match="answer 3 of a sink is"):
        check_answers(b"".join(served(b"").said) + ONE, "sink")
    with pytest.raises(Violation, match="a feed ended with"):
        check_answers(b"".join(served(b"").said) + ONE[:-1], "feed")
    check_answers(b"".join(served(b"").said) + ONE, "feed")


def test_what_breaks_is_shown_with_seed_and_octets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(side: Side) -> None:
        raise Violation("it is different")

    monkeypatch.setattr(dmp_engine, "check", broken)
    assert dmp_engine.main(["--inputs", "5", "--seed", "9", "--first", "3"]) == 1
    shown = capsys.readouterr().err
    assert "it is different" in shown
    assert "seed 9, input 3, a " in shown
