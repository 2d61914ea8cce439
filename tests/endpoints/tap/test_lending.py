"""FETCH that the store's process answers, on the socket that the broker lends to it."""

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio

from endpoints.faults import frozen
from endpoints.tap.client import TapParty, append, declare_stream, open_tap_broker, tap_endpoint, values
from triomq.app import Broker
from triomq.endpoints.tap.connection import TapServerConnection
from triomq.protocols.tap import ClientEvent, EndOfStream, RequestRefused
from triomq.store.connecting import connect as connect_store
from triomq.transports import RawSocket

BODY = bytes(100_000)
COUNT = 60


@asynccontextmanager
async def open_filled(directory: Path, size: int = COUNT) -> AsyncIterator[Broker]:
    """Open a broker that has a stream on disk, and nothing of it in memory."""
    async with open_tap_broker(data_dir=directory, store_host="process") as broker:
        declare_stream(broker, durable=True)
        await append(broker, *[BODY] * size)
    async with open_tap_broker(data_dir=directory, store_host="process") as broker:
        yield broker


async def connect(broker: Broker) -> TapParty:
    """Connect over TCP, and log in."""
    (address,) = tap_endpoint(broker).addresses
    stream = await trio.open_tcp_stream("127.0.0.1", address[1])
    return await TapParty(stream).open()


def connection_of(broker: Broker) -> TapServerConnection:
    """Return the broker's only client of tap."""
    (ref,) = tap_endpoint(broker).children.values()
    assert isinstance(ref.actor, TapServerConnection)
    return ref.actor


def socket_of(broker: Broker) -> RawSocket:
    transport = connection_of(broker)._transport
    assert isinstance(transport, RawSocket)
    return transport


async def begin_and_read_nothing(broker: Broker, tap: TapParty) -> None:
    """Ask for more than the sockets take, and wait until the store has begun to write it."""
    for name in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        socket_of(broker)._socket.setsockopt(socket.SOL_SOCKET, name, 4096)
    tap.fetch(0, most_bytes=4 << 20)
    await tap.flush()
    await tap.stream.socket.recv(1, socket.MSG_PEEK)  # type: ignore[attr-defined]
    assert connection_of(broker)._is_lent


async def all_gone(broker: Broker) -> None:
    while tap_endpoint(broker).children:  # noqa: ASYNC110  # other processes are at work
        await trio.sleep(0.01)


async def last_event(tap: TapParty) -> ClientEvent:
    while tap.ended is None:
        await tap.next()
    return tap.ended


@pytest.mark.parametrize("ahead", [1, 5])
async def test_ranges_are_written_by_the_store_in_the_order_of_requests(tmp_path: Path, ahead: int) -> None:
    with trio.fail_after(60):
        async with open_filled(tmp_path) as broker:
            tap = await connect(broker)
            got = 0
            while got < COUNT:
                numbers = [tap.fetch(got, most_bytes=1_000_000) for _ in range(ahead)]
                ping = tap.engine.ping()
                found = [len(values(await tap.ask(number))) for number in numbers]
                await tap.ask(ping)
                assert len(set(found)) == 1
                assert found[0]
                got += found[0]
            assert socket_of(broker)._is_lent
            await tap.stream.aclose()


async def test_client_that_goes_while_the_store_writes_leaves_nothing_behind(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_filled(tmp_path) as broker:
            tap = await connect(broker)
            await begin_and_read_nothing(broker, tap)
            await tap.stream.aclose()
            await all_gone(broker)
            other = await connect(broker)
            assert values(await other.ask(other.fetch(0)))[0] == BODY
            await other.stream.aclose()


async def test_broker_that_closes_ends_an_answer_that_nobody_reads(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_filled(tmp_path) as broker:
            tap = await connect(broker)
            await begin_and_read_nothing(broker, tap)
        assert isinstance(await last_event(tap), EndOfStream)  # and no word in the middle of the answer
        await tap.stream.aclose()


async def test_store_that_is_killed_while_it_writes_ends_the_connection_and_no_other(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_filled(tmp_path) as broker:
            tap = await connect(broker)
            await begin_and_read_nothing(broker, tap)
            with frozen(broker) as pid:
                os.kill(pid, signal.SIGKILL)
            assert isinstance(await last_event(tap), EndOfStream)
            await tap.stream.aclose()
            await all_gone(broker)
            other = await connect(broker)
            assert values(await other.ask(other.fetch(0)))[0] == BODY
            await other.stream.aclose()


async def test_damaged_records_are_refused_and_the_client_goes_on(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_filled(tmp_path) as broker:
            with closing(connect_store(tmp_path / "store.db")) as connection:
                connection.execute("UPDATE body SET octets = zeroblob(100) WHERE of_first = 0")
            tap = await connect(broker)
            refused = await tap.ask(tap.fetch(0))
            assert isinstance(refused, RequestRefused)
            assert "the records from 0 on are damaged" in refused.text
            (first, *_) = (await tap.bounds())[0:1]
            assert values(await tap.ask(tap.fetch(COUNT - 1)))[-1] == BODY
            assert first.first == 0
            await tap.stream.aclose()
