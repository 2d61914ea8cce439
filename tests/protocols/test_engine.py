"""Engines keep to the shape that drivers are written for, and load no event loop."""

import subprocess
import sys
import typing

from triomq.protocols import Engine
from triomq.protocols.amqp import AMQPEngine, Event


def test_the_amqp_engine_is_an_engine() -> None:
    engine: Engine[Event] = AMQPEngine("server", now=0.0)
    assert engine.next_timer() == 5.0
    for name in typing.get_protocol_members(Engine) if hasattr(typing, "get_protocol_members") else dir(Engine):
        assert hasattr(engine, name) or name.startswith("_")


def test_protocols_load_no_event_loop() -> None:
    program = "import sys, triomq.protocols.amqp; print([n for n in ('trio', 'asyncio', 'socket') if n in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
