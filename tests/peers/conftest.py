"""A served broker for the whole session, and pika connections to it."""

import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from browsers import missing_browser, open_browser
from peers.eventmq import Programs, install
from peers.npm import install_by_npm
from peers.raw import RawPeer
from peers.served import RESTMS, Served, open_served

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

DEADLINE = 100.0
_numbers = itertools.count(1)

Connect = Callable[..., pika.BlockingConnection]


@pytest.fixture(scope="session")
def broker_url(request: pytest.FixtureRequest) -> Iterator[str]:
    given = request.config.getoption("--broker-url")
    if given:
        yield given
    else:
        with open_served() as served:
            yield served.url


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """A broker of the test's own, which the test may end."""
    if request.config.getoption("--broker-url"):
        pytest.skip("this test starts and ends `triomq serve` itself")
    with open_served() as served:
        yield served


@pytest.fixture(scope="session")
def restms() -> Iterator[Served]:
    """A broker that listens for RestMS beside AMQP."""
    with open_served(**RESTMS) as served:
        yield served


@pytest.fixture(scope="session")
def is_triomq(broker_url: str) -> bool:
    """False when the tests are pointed at RabbitMQ, from which triomq differs in places on purpose."""
    with RawPeer(broker_url) as peer:
        return peer.server_properties["product"] != "RabbitMQ"


@pytest.fixture
def tool(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Look a program up that is not a Python package; a machine without it skips, unless peers are required."""

    def find(program: str) -> str:
        found = shutil.which(program)
        if found:
            return found
        reason = f"{program} is not installed"
        if request.config.getoption("--require-peers"):
            pytest.fail(reason)
        pytest.skip(reason)

    return find


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator["WebDriver"]:
    """A Chromium for the tests of one file."""
    if reason := missing_browser():
        (pytest.fail if request.config.getoption("--require-peers") else pytest.skip)(reason)
    with open_browser(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture(scope="session")
def amqp_for_javascript(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with CloudAMQP's client, and a WebSocket for a Node that has none."""
    folder = tmp_path_factory.mktemp("javascript")
    if reason := install_by_npm(folder, "@cloudamqp/amqp-client@4", "ws@8"):
        (pytest.fail if request.config.getoption("--require-peers") else pytest.skip)(reason)
    return folder


@pytest.fixture
def programs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Programs]:
    """The released EventMQ, installed once and remembered by pytest's cache; what the test starts ends with it."""
    assert request.config.cache is not None
    found = Programs(install(request.config.cache.mkdir("eventmq-0.3.13")), tmp_path)
    yield found
    found.stop()


@pytest.fixture
def connect(broker_url: str) -> Iterator[Connect]:
    """Open further connections; they are closed after the test."""
    opened: list[pika.BlockingConnection] = []

    def connect(**overrides: object) -> pika.BlockingConnection:
        parameters = pika.URLParameters(broker_url)
        for option, value in overrides.items():
            setattr(parameters, option, value)
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield connect
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(connect: Connect) -> pika.BlockingConnection:
    return connect()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    """A queue that only this connection may use, and that goes with it."""
    return channel.queue_declare("", exclusive=True).method.queue


@pytest.fixture
def name() -> str:
    """A name that nothing in the broker has yet."""
    return f"test.{os.getpid()}.{next(_numbers)}"


@pytest.fixture
def shared_queue(channel: BlockingChannel, connect: Connect, name: str) -> Iterator[str]:
    """A queue that any connection may use."""
    channel.queue_declare(name)
    yield name
    connect().channel().queue_delete(name)


@pytest.fixture
def raw(broker_url: str) -> Iterator[Callable[..., RawPeer]]:
    """Open raw connections, past their handshake; their sockets are closed after the test."""
    opened: list[RawPeer] = []

    def open_raw(**options: object) -> RawPeer:
        opened.append(RawPeer(broker_url, **options))
        return opened[-1]

    yield open_raw
    for peer in opened:
        peer.socket.close()


@pytest.fixture
def raw_peer(raw: Callable[..., RawPeer]) -> RawPeer:
    """One raw connection with channel 1 open."""
    peer = raw()
    peer.open_channel(1)
    return peer


def wait_until(connection: pika.BlockingConnection, condition: Callable[[], bool], what: str = "") -> None:
    """Serve a connection until a condition holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE:.0f} s: {what or condition}"
        connection.process_data_events(time_limit=0.05)
