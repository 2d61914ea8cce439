"""A few thousand generated inputs, always the same ones; `.ci/run` has more of them."""

from random import Random
from typing import Any

import pytest

from . import (
    amqp_broker,
    amqp_engine,
    amqp_floods,
    dmp_broker,
    dmp_engine,
    dmp_floods,
    emqp_broker,
    emqp_engine,
    http_broker,
    http_engine,
    micromsg_broker,
    micromsg_engine,
    mtl_broker,
    mtl_engine,
    restms_documents,
    tap_broker,
    tap_engine,
    zmtp_engine,
)
from .amqp_trial import AMQPFuzz
from .dmp_trial import DMPFuzz
from .engine_fuzz import EngineDriver, EngineFuzz
from .http_trial import HTTPFuzz
from .loop import Violation
from .micromsg_trial import MicroMsgFuzz
from .tap_trial import TapFuzz
from .zmtp_trial import ZMTPFuzz

FUZZES: list[EngineFuzz[Any, Any]] = [AMQPFuzz(), DMPFuzz(), TapFuzz(), HTTPFuzz(), MicroMsgFuzz(), ZMTPFuzz()]
FLOODS = [
    *((FUZZES[0], name) for name in amqp_floods.FLOODS),
    *((FUZZES[1], name) for name in dmp_floods.FLOODS),
    *((FUZZES[2], name) for name in TapFuzz.floods),
    *((FUZZES[3], name) for name in HTTPFuzz.floods),
    *((FUZZES[4], name) for name in MicroMsgFuzz.floods),
    *((FUZZES[5], name) for name in ZMTPFuzz.floods),
]
all_of_them = pytest.mark.parametrize("fuzz", FUZZES, ids=["amqp", "dmp", "tap", "http", "micromsg", "zmtp"])


@pytest.mark.parametrize(
    ("module", "inputs", "endings"),
    [
        (amqp_engine, 3000, ("failed 501", "running")),
        (
            dmp_engine,
            3000,
            ("of a sink: failed 502", "of a sink: failed 530", "client of a feed: reading"),
        ),
        (emqp_engine, 3000, ("broker: worker, all taken", "worker: open, some dropped", "client: left, some dropped")),
        (
            mtl_engine,
            3000,
            (
                "control server: working, all taken",
                "data server: writing, all taken",
                "data client: reading, some dropped",
            ),
        ),
        (tap_engine, 1500, ("server: failed MALFORMED", "server: open", "client: open", "client: closed")),
        (http_engine, 1500, ("server: failed 400", "server: open", "client: open", "client: failed 502")),
        (
            micromsg_engine,
            1500,
            ("server: failed 400", "server: failed 409", "server: open", "client: open", "client: heard ERROR"),
        ),
        (
            zmtp_engine,
            3000,
            ("server: failed MALFORMED", "server: failed UNFIT", "server: open", "publisher: open", "client: open"),
        ),
        (restms_documents, 5000, ("XML: messages", "XML: too-large", "JSON: messages", "JSON: unreadable")),
        (emqp_broker, 100, ("no answer", "answers")),
        (mtl_broker, 100, ("control: answers", "data: answers")),
        (tap_broker, 100, ("MALFORMED", "no close")),
        (micromsg_broker, 100, ("400", "409", "no error")),
        (http_broker, 100, ("last answer 200", "last answer 400", "last answer 401")),
        (amqp_broker, 300, ("connection closed 505", "no close")),
        (dmp_broker, 300, ("sink: 502", "sink: all was read", "feed: messages", "402 to the lease")),
    ],
    ids=[
        "amqp_engine",
        "dmp_engine",
        "emqp_engine",
        "mtl_engine",
        "tap_engine",
        "http_engine",
        "micromsg_engine",
        "zmtp_engine",
        "restms_documents",
        "emqp_broker",
        "mtl_broker",
        "tap_broker",
        "micromsg_broker",
        "http_broker",
        "amqp_broker",
        "dmp_broker",
    ],
)
def test_generated_inputs_break_nothing(
    capsys: pytest.CaptureFixture[str], module: Any, inputs: int, endings: tuple[str, ...]
) -> None:
    assert module.main(["--inputs", str(inputs), "--seed", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{inputs} inputs in ")
    for ending in endings:
        assert any(line.endswith(ending) for line in lines)


@pytest.mark.parametrize(("fuzz", "name"), FLOODS, ids=[f"{fuzz.name}{name}" for fuzz, name in FLOODS])
def test_flood_takes_bounded_memory(fuzz: EngineFuzz[Any, Any], name: str) -> None:
    assert fuzz.flood(Random(name), name) == f"flood: {name}"


@all_of_them
def test_inputs_are_the_same_each_time(fuzz: EngineFuzz[Any, Any]) -> None:
    assert [fuzz.trial(3, number) for number in range(50)] == [fuzz.trial(3, number) for number in range(50)]


def test_options_must_limit_the_run() -> None:
    with pytest.raises(SystemExit):
        amqp_engine.main([])


@all_of_them
def test_violation_is_shown_with_seed_and_octets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fuzz: EngineFuzz[Any, Any]
) -> None:
    def broken(fuzz: EngineFuzz[Any, Any], whole: EngineDriver, other: EngineDriver, how: str) -> None:
        raise Violation("it is different")

    monkeypatch.setattr(type(fuzz), "compare", broken)
    assert fuzz.main("", ["--inputs", "5", "--seed", "9", "--first", "3"]) == 1
    shown = capsys.readouterr().err
    assert "it is different" in shown
    assert "seed 9, input 3, a " in shown
