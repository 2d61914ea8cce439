"""Nothing of a broker survives in a fork of its process, and the process goes on: ports, connections, store, lock."""

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trio

from app.forked import WAYS
from forking import FORKS, descriptors, fork_in_c, in_fork, left_in_fork, living_fork
from triomq import (
    AMQP,
    EMQP,
    MTL,
    Jobs,
    MicroMsg,
    RestMS,
    Tap,
    Trace,
    WebSocket,
    open_blocking_broker,
    open_broker,
)  # fmt: skip
from triomq.clients import open_amqp, open_blocking, open_micromsg, open_mtl, open_restms, open_tap
from triomq.store.hosting import HostKind

pytestmark = FORKS

PROGRAM = Path(__file__).with_name("forked.py")


class Forked:
    """The program ``forked.py``, and its child."""

    def __init__(self, way: str, host: HostKind, directory: Path) -> None:
        self.directory = directory
        self.host = host
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, way, host, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        *self.ports, self.child = map(int, self.process.stdout.readline().split())

    def leave(self) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        said = self.process.stdout.readline()
        self.process.wait(60)
        return said

    def open_again(self) -> int:
        """Open a broker at the same places, which must be free, and return how many messages were there."""
        os.kill(self.child, 0)  # it lives
        amqp, emqp, tap = self.ports
        endpoints = AMQP(port=amqp), EMQP(port=emqp), Tap(port=tap)
        with open_blocking_broker(*endpoints, data_dir=self.directory) as broker:
            return broker.queue("q").statistics().ready

    def close(self) -> None:
        os.kill(self.child, signal.SIGKILL)  # first: it has the other end of the pipe
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["process", "thread"])
def host(request: pytest.FixtureRequest) -> HostKind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=sorted(WAYS))
def forked(request: pytest.FixtureRequest, host: HostKind, tmp_path: Path) -> Iterator[Forked]:
    forked = Forked(request.param, host, tmp_path / "data")
    yield forked
    forked.close()


def test_child_of_a_program_that_was_killed_has_neither_its_ports_nor_its_store(forked: Forked) -> None:
    forked.process.kill()
    forked.process.wait()
    assert forked.open_again() == 2


def test_program_with_a_child_leaves_its_block_and_all_is_free(forked: Forked) -> None:
    began = os.times().elapsed
    assert forked.leave() == "left\n"
    assert os.times().elapsed - began < 4.5  # a store that does not see its end is killed after five seconds
    assert forked.open_again() == 2


EVERYTHING = (
    AMQP(port=0), EMQP(port=0), Tap(port=0), RestMS(port=0), MicroMsg(port=0), MTL(port=0),
    AMQP(port=0, websocket=WebSocket()),
)  # fmt: skip


def test_fork_has_no_descriptor_of_a_broker_whatever_it_listens_for(host: HostKind, tmp_path: Path) -> None:
    before = descriptors()
    trace = Trace(directory=str(tmp_path / "trace"))
    unix = AMQP(path=str(tmp_path / "socket"))
    with open_blocking_broker(*EVERYTHING, unix, data_dir=tmp_path / "data", store_host=host, trace=trace) as broker:
        with open_blocking(f"amqp+unix://guest:guest@{tmp_path}/socket"):
            assert left_in_fork(before, zmq=True) == []
        assert (tmp_path / "socket").exists()
        broker.declare_queue("q")


@contextmanager
def blocking_amqp(ports: list[int]) -> Iterator[Callable[[], object]]:
    with open_blocking(f"amqp://guest:guest@127.0.0.1:{ports[0]}/") as connection:
        yield lambda: connection.publish("", "q", b"x")


@contextmanager
def blocking_jobs(ports: list[int]) -> Iterator[Callable[[], object]]:
    jobs = Jobs()

    @jobs.job
    def nothing() -> None: ...

    with jobs.connect_blocking(f"emqp://127.0.0.1:{ports[1]}"):
        yield lambda: nothing.blocking.send()


@contextmanager
def tap(ports: list[int]) -> Iterator[Callable[[], object]]:
    with open_tap(f"tap://guest:guest@127.0.0.1:{ports[2]}") as connection:
        yield connection.ping


@pytest.mark.parametrize("client", [blocking_amqp, blocking_jobs, tap])
def test_fork_has_nothing_of_a_client_and_its_calls_there_are_errors_while_the_program_goes_on(
    client: Callable[[list[int]], "ExitStack"],
) -> None:
    with open_blocking_broker(*EVERYTHING[:3]) as broker:
        broker.declare_queue("q")
        before = descriptors()
        with client([listening.port for listening in broker.listening]) as call:
            call()
            assert left_in_fork(before, zmq=True) == []
            assert in_fork(call).startswith("RuntimeError: this is process ")
            assert in_fork(call, fork_in_c).startswith("RuntimeError: this is process ")
            with living_fork():
                call()


def test_clients_that_a_fork_leaves_are_open_in_the_program() -> None:
    with open_blocking_broker(*EVERYTHING[:3]) as broker, ExitStack() as stack:
        broker.declare_queue("q")
        ports = [listening.port for listening in broker.listening]
        calls = [stack.enter_context(client(ports)) for client in (blocking_amqp, blocking_jobs, tap)]
        assert in_fork(stack.close) == "None"
        for call in calls:
            call()


def test_jobs_that_connect_when_needed_connect_anew_in_a_fork() -> None:
    jobs = Jobs()

    @jobs.job
    def nothing() -> None: ...

    with open_blocking_broker(EMQP(port=0)) as broker:
        jobs.connect_when_needed(f"emqp://127.0.0.1:{broker.listening[0].port}")
        first = nothing.blocking.send()
        assert len(in_fork(lambda: nothing.blocking.send().id)) == len(first.id)
        assert first.state().state == "waiting"
        nothing.blocking.send()


async def test_fork_has_nothing_of_clients_for_trio() -> None:
    async with open_broker(*EVERYTHING[:6]) as broker, trio.open_nursery():
        await broker.declare_queue("q")
        amqp, emqp, _, restms, micromsg, mtl = (listening.port for listening in broker.listening)
        before = descriptors()
        jobs = Jobs()
        async with (
            open_amqp(f"amqp://guest:guest@127.0.0.1:{amqp}/") as first,
            first.open_channel() as channel,
            open_restms(f"http://guest:guest@127.0.0.1:{restms}/restms/domain/default") as second,
            open_micromsg(f"micromsg://guest:guest@127.0.0.1:{micromsg}") as third,
            open_mtl(f"mtl://guest:guest@127.0.0.1:{mtl}") as fourth,
            jobs.connect(f"emqp://127.0.0.1:{emqp}"),
        ):
            assert {type(one).__name__ for one in (second, third, fourth)} == {
                "RestMSConnection",
                "MicroMsgConnection",
                "MTLConnection",
            }
            left = await trio.to_thread.run_sync(lambda: left_in_fork(before, zmq=True))
            assert left == []
            await channel.publish("", "q", b"x")


async def test_calls_of_clients_for_trio_are_errors_in_a_fork() -> None:
    """In the fork they are made in a Trio run of its own, where they would wait for tasks that it has not."""
    async with open_broker(*EVERYTHING[:6]) as broker:
        await broker.declare_queue("q")
        amqp, emqp, _, restms, micromsg, mtl = (listening.port for listening in broker.listening)
        jobs = Jobs()

        @jobs.job
        def nothing() -> None: ...

        async with (
            open_amqp(f"amqp://guest:guest@127.0.0.1:{amqp}/") as first,
            first.open_channel() as channel,
            open_restms(f"http://guest:guest@127.0.0.1:{restms}/restms/domain/default") as second,
            open_micromsg(f"micromsg://guest:guest@127.0.0.1:{micromsg}") as third,
            open_mtl(f"mtl://guest:guest@127.0.0.1:{mtl}") as fourth,
            fourth.open_writer("q") as writer,
            jobs.connect(f"emqp://127.0.0.1:{emqp}"),
        ):
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "open a channel": lambda: first.open_channel().__aenter__(),
                "publish by AMQP": lambda: channel.publish("", "q", b"x"),
                "get by AMQP": lambda: channel.get("q"),
                "RestMS": second.domain,
                "MicroMsg2": lambda: third.publish("q", b"x"),
                "MTL": lambda: writer.publish("q", b"x"),
            }

            async def within(call: Callable[[], Awaitable[object]]) -> None:
                with trio.fail_after(5):
                    await call()

            def run(call: Callable[[], Awaitable[object]]) -> None:
                signal.set_wakeup_fd(-1)  # that of the program's Trio, of which another run warns
                trio.run(within, call)

            for name, call in calls.items():
                said = await trio.to_thread.run_sync(lambda: in_fork(lambda: run(call)))  # noqa: B023
                assert said.startswith("RuntimeError: this is process "), (name, said)
            assert (await trio.to_thread.run_sync(lambda: in_fork(lambda: run(nothing.send)))).startswith("AlreadyConn")
            await channel.publish("", "q", b"x")
            await nothing.send()


async def test_call_in_a_fork_from_the_thread_of_the_broker_is_an_error() -> None:
    async with open_broker() as broker:
        queue = await broker.declare_queue("q")
        said = in_fork(lambda: broker.publish_nowait("", "q", b"x"))
        assert said.startswith("RuntimeError: this is process ")
        assert "Let the broker listen, AMQP(port=0)" in said
        broker.publish_nowait("", "q", b"x")
        delivery = await queue.get()
        assert delivery is not None
        assert in_fork(delivery.accept).startswith("RuntimeError: this is process ")
        delivery.accept()


def test_feed_and_delivery_in_a_fork_are_errors() -> None:
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")
        with queue.open_feed() as feed:
            broker.publish("", "q", b"x")
            delivery = feed.take()
            assert delivery is not None
            for call in (feed.take, delivery.accept, delivery.requeue):
                for fork in (os.fork, fork_in_c):
                    assert in_fork(call, fork).startswith("RuntimeError: this is process ")
            delivery.accept()
