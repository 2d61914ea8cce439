"""A few thousand generated inputs, always the same ones; `.ci/run` has more of them."""

from random import Random

import pytest

from . import amqp_broker, amqp_engine
from .engine_trial import Endpoint, Input, check_events, check_said, compare, kept, run
from .floods import FLOODS, flood
from .loop import Violation
from .words import CLIENT_OPENING, header


def test_a_few_thousand_inputs_break_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert amqp_engine.main(["--inputs", "3000", "--seed", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3000 inputs in ")
    assert any(line.endswith("failed 501") for line in lines)
    assert any(line.endswith("running") for line in lines)


def test_a_broker_survives_them_and_serves_whoever_behaves(capsys: pytest.CaptureFixture[str]) -> None:
    assert amqp_broker.main(["--inputs", "300", "--seed", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("300 inputs in ")
    assert any(line.endswith("connection closed 505") for line in lines)
    assert any(line.endswith("no close") for line in lines)


@pytest.mark.parametrize("name", FLOODS)
def test_whatever_comes_for_long_takes_bounded_room(name: str) -> None:
    assert flood(Random(name), name) == f"flood: {name}"


def test_an_input_is_the_same_whenever_it_is_asked_for() -> None:
    assert [amqp_engine.one(3, number) for number in range(50)] == [amqp_engine.one(3, number) for number in range(50)]


def test_neither_seconds_nor_inputs_is_refused() -> None:
    with pytest.raises(SystemExit):
        amqp_engine.main([])


# The checks themselves: each sees what it is there for.


def opened() -> Endpoint:
    return run(Input("server", len(CLIENT_OPENING), "accept", b""), [])


def test_other_events_and_other_answers_are_seen() -> None:
    data = header(1, 0)
    whole, other = opened(), opened()
    other.feed(data)
    with pytest.raises(Violation, match="other events"):
        compare(whole, other, "spoilt")
    other.events[:] = whole.events
    with pytest.raises(Violation, match="other answers"):
        compare(whole, other, "spoilt")


def test_words_after_a_close_are_seen() -> None:
    endpoint = opened()
    endpoint.feed(header(1, 0))
    check_events(endpoint.events)
    check_said("server", b"".join(endpoint.said))
    with pytest.raises(Violation, match="was said after a close"):
        check_said("server", b"".join(endpoint.said) * 2)
    with pytest.raises(Violation, match="after Failed"):
        check_events(endpoint.events * 2)


def test_octets_that_are_kept_are_counted() -> None:
    endpoint = opened()
    before = kept(endpoint.engine)
    endpoint.feed(header(1, 0)[:-1])
    assert kept(endpoint.engine) == before + len(header(1, 0)) - 1


def test_what_breaks_is_shown_with_seed_and_octets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(whole: Endpoint, other: Endpoint, how: str) -> None:
        raise Violation("it is different")

    monkeypatch.setattr(amqp_engine, "compare", broken)
    assert amqp_engine.main(["--inputs", "5", "--seed", "9", "--first", "3"]) == 1
    shown = capsys.readouterr().err
    assert "it is different" in shown
    assert "seed 9, input 3, a " in shown
