"""A broker on its own, inside this process: signals, and what it is told."""

import gc
import signal
from collections.abc import Iterator

import pytest
import trio

from triomq.app import AMQP, Broker, Config, open_broker, serve
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


async def test_it_is_told_when_everything_listens() -> None:
    ports: list[int] = []

    def started(broker: Broker) -> None:
        ports.extend(listening.port for listening in broker.listening)
        press(signal.SIGTERM)

    assert await serve(Config(endpoints=(HERE, HERE)), started=started) == 0
    assert len(set(ports)) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_one_signal_drains(number: int) -> None:
    assert await serve(Config(endpoints=()), started=lambda broker: press(number)) == 0


async def test_a_second_signal_cuts_and_says_which(nursery: trio.Nursery) -> None:
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


async def test_a_port_in_use_is_an_error_without_a_group_around_it() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        taken = AMQP(host="127.0.0.1", port=broker.listening[0].port)
        with pytest.raises(ConfigError, match="in use"):
            await serve(Config(endpoints=(taken,)), started=_never)


def _never(broker: Broker) -> None:
    raise AssertionError
