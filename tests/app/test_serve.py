"""A broker on its own, inside this process: signals and reloads."""

import gc
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from triomq.app import AMQP, Broker, Config, Log, User, machine, open_broker, run, serve
from triomq.core import anonymous_memory
from triomq.errors import ConfigError

HERE = AMQP(host="127.0.0.1", port=0)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Give the collector of garbage back what a broker on its own may change, for it never goes back."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def press(*numbers: int) -> None:
    for number in numbers:
        signal.raise_signal(number)


async def test_started_is_called_when_everything_listens() -> None:
    ports: list[int] = []

    def started(broker: Broker) -> None:
        ports.extend(listening.port for listening in broker.listening)
        press(signal.SIGTERM)

    assert await serve(Config(endpoints=(HERE, HERE)), started=started) == 0
    assert len(set(ports)) == 2


async def test_serve_watches_the_memory_of_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a container that is too small for what the tests themselves have: no message is there, so it soon ends."""
    has = anonymous_memory()
    assert has is not None
    (tmp_path / "memory.max").write_text(str(int(has * 1.2)))
    (tmp_path / "group").write_text("0::/")
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path / "group")
    monkeypatch.setattr(machine, "_CGROUP_ROOT", tmp_path)

    async def see(broker: Broker) -> None:
        with trio.fail_after(60):
            while not broker.directory.memory.on:
                await trio.testing.wait_all_tasks_blocked(0.01)
            over = trio.Event()
            broker.directory.memory.when_over(over.set)
            await over.wait()
        press(signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        assert await serve(Config(endpoints=()), started=lambda broker: nursery.start_soon(see, broker)) == 0


async def test_second_signal_cuts_and_says_which(nursery: trio.Nursery) -> None:
    address: list[tuple[str, int]] = []

    async def hold() -> None:
        stream = await trio.open_tcp_stream(*address[0])
        await stream.send_all(b"AMQP\x00\x00\x09\x01")
        await stream.receive_some()
        press(signal.SIGTERM, signal.SIGINT)
        await stream.aclose()

    def started(broker: Broker) -> None:
        address.append(broker.listening[0].address)
        nursery.start_soon(hold)

    assert await serve(Config(endpoints=(HERE,)), started=started) == 128 + signal.SIGINT


async def test_port_in_use_is_an_error_without_a_group_around_it() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        taken = AMQP(host="127.0.0.1", port=broker.listening[0].port)
        with pytest.raises(ConfigError, match="in use"):
            await serve(Config(endpoints=(taken,)), started=_never)


def _never(broker: Broker) -> None:
    raise AssertionError


async def test_hang_up_reads_the_configuration_again(nursery: trio.Nursery, caplog: pytest.LogCaptureFixture) -> None:
    """And one that is broken leaves everything as it was."""
    caplog.set_level(logging.INFO, logger="triomq.serve")
    answers: list[Config | ConfigError] = [
        Config(endpoints=(HERE,), users={"ada": User("1")}),
        ConfigError("one\ntwo"),
        Config(endpoints=(HERE,), users={"bob": User("1")}),
    ]

    def reload() -> Config:
        answer = answers.pop(0)
        if isinstance(answer, ConfigError):
            raise answer
        return answer

    async def hang_up() -> None:
        while answers:
            before = len(caplog.records)
            press(signal.SIGHUP)
            while len(caplog.records) == before or "reloaded" not in caplog.records[-1].getMessage():
                await trio.lowlevel.checkpoint()
        press(signal.SIGTERM)

    def started(broker: Broker) -> None:
        nursery.start_soon(hang_up)

    assert await serve(Config(endpoints=(HERE,)), started=started, reload=reload) == 0
    assert [record.getMessage() for record in caplog.records if record.name == "triomq.serve"] == [
        "no data directory: everything is in memory only, and ends with this process",
        "user added",
        "user removed",
        "configuration reloaded",
        "configuration is wrong",
        "configuration is wrong",
        "configuration not reloaded, everything stays as it was",
        "user added",
        "user removed",
        "configuration reloaded",
        "draining",
    ]


async def test_hang_up_without_a_file_changes_nothing(caplog: pytest.LogCaptureFixture, nursery: trio.Nursery) -> None:
    async def hang_up() -> None:
        press(signal.SIGHUP)
        while not caplog.records:
            await trio.lowlevel.checkpoint()
        press(signal.SIGTERM)

    assert await serve(Config(endpoints=()), started=lambda broker: nursery.start_soon(hang_up)) == 0
    assert caplog.messages[0] == "nothing to reload: the configuration came from no file"


def test_program_may_run_it_with_a_log_and_a_loop_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    root, ours = logging.getLogger(), logging.getLogger("triomq")
    handlers, level = root.handlers[:], ours.level
    try:
        code = run(Config(endpoints=(HERE,), log=Log(format="json")), started=lambda broker: press(signal.SIGTERM))
    finally:
        root.handlers[:] = handlers
        ours.setLevel(level)
    assert code == 0
    assert '"event":"listening"' in capsys.readouterr().err
