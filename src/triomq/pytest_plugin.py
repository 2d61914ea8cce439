"""Fixtures with a broker, for the test suite of any project: ``broker``, ``jobs``, ``amqp_url``, ``wait_idle``.

pytest loads this module in every run of an environment that triomq is installed in, whether a test asks for a broker
or not. So it is no part of the package ``app``, and imports nothing but pytest until a fixture is used.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol

import pytest

if TYPE_CHECKING:
    from triomq.app import Broker
    from triomq.app.portal import BlockingBroker
    from triomq.app.testing import JobsInTest
    from triomq.endpoints import EndpointConfig


_PATIENCE = 10.0
"""Seconds that ``wait_idle`` waits by default: a test that hangs is to fail, and to name the busy queue."""


class WaitIdle(Protocol):
    """The function that the fixture ``wait_idle`` returns."""

    def __call__(self, *, timeout: float = _PATIENCE) -> None:
        """Block until nothing happens by itself any more in the broker behind ``amqp_url``.

        Args:
            timeout: Seconds until that is an error.

        Raises:
            TimeoutError: It took longer; the text names the busy queues.
            RuntimeError: It would block an event loop; the text says what to do instead.
        """


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> object:
    """A ``Broker`` in the test's own Trio run: in memory, without sockets, for real and for virtual time.

    For ``async def`` tests under pytest-trio.
    """
    return _found_in_trio(request, "broker", "_triomq_broker")


@pytest.fixture
def jobs(request: pytest.FixtureRequest) -> object:
    """A ``JobsInTest``: ``await jobs.work(my_jobs)`` runs the jobs of a program here, with the fixture ``broker``.

    For ``async def`` tests under pytest-trio; take ``autojump_clock`` too, and time flies.
    """
    return _found_in_trio(request, "jobs", "_triomq_jobs")


def _found_in_trio(request: pytest.FixtureRequest, name: str, stand_in: str) -> object:
    """Return pytest-trio's stand-in for a fixture, which it replaces in the test's Trio run, if there will be one."""
    if not request.config.pluginmanager.has_plugin("trio"):
        pytest.fail(
            f"the fixture `{name}` runs in the test's own Trio run, which pytest-trio makes, and that is not there: "
            "`pip install pytest-trio`, or take the fixture `amqp_url`, which any test can use",
            pytrace=False,
        )
    if request.node.get_closest_marker("trio") is None:
        pytest.fail(
            f"the fixture `{name}` runs in the test's own Trio run, and this test has none: write `async def` and "
            "`@pytest.mark.trio` (or set `trio_mode = true`), or take the fixture `amqp_url`, which any test can use",
            pytrace=False,
        )
    found: object = request.getfixturevalue(stand_in)
    return found


@pytest.fixture
async def _triomq_broker() -> "AsyncIterator[Broker]":
    import trio.testing

    from triomq.app import open_broker

    async with open_broker() as broker:
        if isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock):
            broker.listen = _refuse_to_listen  # type: ignore[method-assign]  # this one broker is to refuse
        yield broker


@pytest.fixture
async def _triomq_jobs(_triomq_broker: "Broker") -> "AsyncIterator[JobsInTest]":
    from triomq.app.testing import open_jobs_in_test

    async with open_jobs_in_test(_triomq_broker) as jobs:
        yield jobs


async def _refuse_to_listen(config: "EndpointConfig") -> NoReturn:
    from triomq.errors import ConfigError

    raise ConfigError(
        f"{config!r} is a real socket, and this test runs in virtual time (autojump_clock, mock_clock): the clock "
        "jumps while bytes are on their way, so timeouts fire that never would. Leave the clock out, or stay in "
        "memory and use broker.publish and queue.open_feed"
    )


@pytest.fixture
def _triomq_thread() -> "Iterator[BlockingBroker]":
    from triomq.app import AMQP
    from triomq.app.portal import open_blocking_broker

    # A numeric address needs no resolver; a drain of 0 does not wait for clients that a test has left open.
    with open_blocking_broker(AMQP(host="127.0.0.1", port=0), drain=0.0) as broker:
        yield broker


@pytest.fixture
def amqp_url(_triomq_thread: "BlockingBroker") -> str:
    """The URL of a fresh broker with a real socket, in a thread of its own and in real time; for any test."""
    return f"amqp://guest:guest@127.0.0.1:{_triomq_thread.listening[0].port}"


@pytest.fixture
def wait_idle(request: pytest.FixtureRequest) -> WaitIdle:
    """Block until nothing happens by itself any more in the broker behind ``amqp_url``: ``wait_idle()``.

    In a coroutine: ``await asyncio.to_thread(wait_idle)``.
    """
    if "amqp_url" not in request.fixturenames:
        pytest.fail(
            "the fixture `wait_idle` waits for the broker behind `amqp_url`, which this test does not use; for the one "
            "of the fixture `broker` write `await broker.wait_idle()`",
            pytrace=False,
        )
    broker: BlockingBroker = request.getfixturevalue("_triomq_thread")

    def wait(*, timeout: float = _PATIENCE) -> None:
        _check_may_block()
        broker.wait_idle(timeout=timeout)

    return wait


def _check_may_block() -> None:
    """Refuse to block an event loop: the clients that are waited for may run in it.

    Raises:
        RuntimeError: One runs in this thread.
    """
    import asyncio

    import trio

    loops: list[tuple[Callable[[], object], str]] = [
        (asyncio.get_running_loop, "asyncio.to_thread"),
        (trio.lowlevel.current_trio_token, "trio.to_thread.run_sync"),
    ]
    for find_loop, way_out in loops:
        try:
            find_loop()
        except RuntimeError:
            continue  # there is none
        raise RuntimeError(
            "wait_idle() would block this event loop, and with it the clients that it waits for; "
            f"write `await {way_out}(wait_idle)`"
        )


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a test that has both a real broker and virtual time, whatever the name of its clock."""
    values: dict[str, object] = getattr(item, "funcargs", {})
    if "_triomq_thread" not in values:
        return
    from trio.testing import MockClock

    clocks = [name for name, value in values.items() if isinstance(value, MockClock)]
    if clocks:
        pytest.fail(
            f"this test uses `amqp_url`, a real broker in real time, and the clock `{clocks[0]}`, which is virtual: it "
            "jumps while bytes are on their way, so timeouts fire that never would. Leave the clock out, or take the "
            "fixture `broker`, which is in memory and runs in virtual time",
            pytrace=False,
        )
