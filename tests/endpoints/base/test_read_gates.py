"""Reasons why nothing is read from a connection, several at once."""

import pytest
import trio
import trio.testing

from triomq.endpoints.base.read_gates import ReadGates
from triomq.protocols.amqp import AMQPEngine
from triomq.transports import StreamTransport


class Listener:
    """Keeps what its transport has read."""

    def __init__(self) -> None:
        self.heard = b""

    def received(self, data: bytes) -> None:
        self.heard += data

    def drained(self) -> None:
        """Nothing is sent here."""


async def test_reading_waits_until_the_last_gate_is_open(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    transport, engine, listener = StreamTransport(theirs, "memory"), AMQPEngine("server", now=0.0), Listener()
    gates = ReadGates(transport, engine)
    nursery.start_soon(transport.run)
    gates.close("one")
    gates.close("two")
    gates.close("two")
    transport.start(listener)
    gates.close("one")
    transport.pause_reading()  # start has opened what was closed before it
    await ours.send_all(b"x")
    for gate in ("two", "unknown"):
        gates.open(gate)
        await trio.testing.wait_all_tasks_blocked()
        assert listener.heard == b""
        assert engine.reading_paused
    gates.open("one")
    await trio.testing.wait_all_tasks_blocked()
    assert listener.heard == b"x"
    assert not engine.reading_paused
    transport.close()


@pytest.mark.parametrize("gate", ["one", "two"])
def test_gate_that_was_not_closed_opens_nothing(gate: str) -> None:
    _, theirs = trio.testing.memory_stream_pair()
    engine = AMQPEngine("server", now=0.0)
    gates = ReadGates(StreamTransport(theirs, "memory"), engine)
    gates.open(gate)
    assert not engine.reading_paused
