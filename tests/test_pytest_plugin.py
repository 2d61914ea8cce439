"""The fixtures that any project's test suite has once triomq is installed."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator

import pika
import pytest
import trio
import trio.testing

from triomq import Broker
from triomq.pytest_plugin import WaitIdle

pytest_plugins = ["pytester"]


async def test_broker_of_the_fixture_is_empty_and_open(broker: Broker) -> None:
    queue = await broker.declare_queue("q")
    await broker.publish("", "q", b"42")
    assert (await queue.statistics()).ready == 1
    assert broker.listening == []


async def test_broker_of_the_fixture_runs_in_virtual_time_when_the_test_does(
    broker: Broker, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    queue = await broker.declare_queue("q")

    async def consume() -> None:
        async with queue.open_feed() as feed:
            async for delivery in feed:
                with delivery:
                    await trio.sleep(3600)

    nursery.start_soon(consume)
    await broker.publish("", "q", b"42")
    await trio.testing.wait_all_tasks_blocked()
    await broker.wait_idle()
    assert trio.current_time() >= 3600


def test_broker_behind_the_url_takes_clients_and_is_waited_for(amqp_url: str, wait_idle: WaitIdle) -> None:
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"42")
        wait_idle()
        frame, _, body = channel.basic_get("q")
        assert body == b"42"
        with pytest.raises(TimeoutError, match=r"not idle within 0\.01 s: queue 'q' has 1 unsettled"):
            wait_idle(timeout=0.01)
        channel.basic_ack(frame.delivery_tag)
        wait_idle()


@pytest.fixture
def left_behind() -> Iterator[list[socket.socket]]:
    """Sockets that are closed when the broker is gone already."""
    sockets: list[socket.socket] = []
    yield sockets
    for left in sockets:
        assert left.recv(8) == b"AMQP\x00\x00\x09\x01"
        left.close()


@pytest.mark.parametrize("turn", [1, 2])
def test_broker_of_a_test_is_its_own(left_behind: list[socket.socket], amqp_url: str, turn: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        channel = connection.channel()
        assert channel.queue_declare("q").method.message_count == 0
        channel.basic_publish("", "q", b"left behind")
    client = socket.create_connection(("127.0.0.1", int(amqp_url.rpartition(":")[2])))
    client.sendall(b"HTTP/1.1")
    left_behind.append(client)  # the end of the test does not wait for it


def test_waiting_in_a_coroutine_is_refused_in_favour_of_a_thread(amqp_url: str, wait_idle: WaitIdle) -> None:
    async def in_asyncio() -> None:
        await asyncio.to_thread(wait_idle)
        with pytest.raises(RuntimeError, match=r"`await asyncio\.to_thread\(wait_idle\)`"):
            wait_idle()

    async def in_trio() -> None:
        await trio.to_thread.run_sync(wait_idle)
        with pytest.raises(RuntimeError, match=r"`await trio\.to_thread\.run_sync\(wait_idle\)`"):
            wait_idle()

    asyncio.run(in_asyncio())
    trio.run(in_trio)


async def test_url_serves_under_pytest_trio_as_well(amqp_url: str) -> None:
    port = int(amqp_url.rpartition(":")[2])
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"HTTP/1.1")
        assert await stream.receive_some(8) == b"AMQP\x00\x00\x09\x01"


# What is refused: each in a suite of its own, since it is to fail.
SUITES = {
    "virtual time beside a socket": (
        "async def test(amqp_url, autojump_clock): ...",
        "*uses `amqp_url`, a real broker in real time, and the clock `autojump_clock`, which is virtual*",
    ),
    "virtual time by another name": (
        "import pytest\nfrom trio.testing import MockClock\n"
        "@pytest.fixture\ndef slow_motion():\n    return MockClock(rate=0.1)\n"
        "async def test(amqp_url, slow_motion): ...",
        "*the clock `slow_motion`, which is virtual*take the fixture `broker`*",
    ),
    "listening in virtual time": (
        "from triomq import AMQP\nasync def test(broker, autojump_clock):\n    await broker.listen(AMQP(port=0))",
        "*ConfigError: AMQP(*is a real socket, and this test runs in virtual time*",
    ),
    "a broker without a Trio run": (
        "def test(broker): ...",
        "*`broker` runs in the test's own Trio run, and this test has none*take the fixture `amqp_url`*",
    ),
    "waiting for no broker": (
        "def test(wait_idle): ...",
        "*waits for the broker behind `amqp_url`, which this test does not use*",
    ),
}


@pytest.mark.parametrize("suite", SUITES)
def test_mistake_is_refused_with_what_to_do_instead(pytester: pytest.Pytester, suite: str) -> None:
    code, text = SUITES[suite]
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.makepyfile(code)
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    counts = outcome.parseoutcomes()
    assert counts.get("failed", 0) + counts.get("errors", 0) == 1, counts
    outcome.stdout.fnmatch_lines([text])


def test_broker_fixture_without_pytest_trio_names_what_to_install(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test(broker): ...\ndef test_other(amqp_url): ...")
    outcome = pytester.runpytest_subprocess("-p", "no:trio", "-p", "no:asyncio", "-W", "error")
    outcome.assert_outcomes(errors=1, passed=1)
    outcome.stdout.fnmatch_lines(["*`pip install pytest-trio`, or take the fixture `amqp_url`*"])


def test_listening_in_real_time_is_allowed(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.makepyfile("from triomq import AMQP\nasync def test(broker):\n    await broker.listen(AMQP(port=0))")
    pytester.runpytest_subprocess("-p", "no:asyncio", "-W", "error").assert_outcomes(passed=1)


def test_suite_that_uses_no_fixture_loads_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\n"
        "def test():\n"
        "    assert 'triomq.pytest_plugin' in sys.modules\n"
        "    assert not {'triomq.app', 'triomq.core', 'trio', 'msgspec', 'asyncio'} & set(sys.modules)\n"
    )
    outcome = pytester.runpytest_subprocess(
        *("-p", "no:trio", "-p", "no:hypothesispytest", "-p", "no:asyncio", "-p", "no:anyio"), "-W", "error"
    )
    outcome.assert_outcomes(passed=1)


def test_importing_the_plugin_loads_nothing_of_the_broker() -> None:
    program = "import sys, triomq.pytest_plugin; print(*{name for name in sys.modules if name.startswith('triomq')})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"triomq", "triomq.lazy", "triomq.pytest_plugin", "triomq.version"}
