"""A served broker for the commands that look into one, and those commands run in this process."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from typer.testing import CliRunner, Result

from peers.served import open_served
from ports import free_port
from triomq.app.cli.commands import make_app
from triomq.clients import BlockingConnection, open_blocking
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk

Command = Callable[..., Result]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with open_served() as served:
        yield served.url


class ServedJobs(NamedTuple):
    """A broker with an eMQP endpoint: where to look into it, and where its jobs go."""

    url: str
    emqp: str


@pytest.fixture(scope="session")
def served_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedJobs]:
    port = free_port()
    config = tmp_path_factory.mktemp("jobs") / "triomq.toml"
    config.write_text(f'[[endpoints]]\ntype = "amqp"\nport = 0\n[[endpoints]]\ntype = "emqp"\nport = {port}\n')
    with open_served(str(config)) as served:
        yield ServedJobs(served.url, f"emqp://127.0.0.1:{port}")


@pytest.fixture
def connection(url: str) -> Iterator[BlockingConnection]:
    with open_blocking(url) as connection:
        yield connection


@pytest.fixture
def queue(connection: BlockingConnection) -> str:
    """A queue that any connection may use."""
    name = f"cli.{next(_numbers)}"
    return connection.call(QueueDeclare(name), QueueDeclareOk).queue


@pytest.fixture
def command(url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command against the broker; its standard input is no terminal."""
    monkeypatch.setenv("TRIOMQ_URL", url)

    def command(*options: str, input: bytes = b"") -> Result:
        return CliRunner().invoke(make_app(options), list(options), input=input)

    return command
