import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from triomq.store import Batch
from triomq.store.frames import Committed, FrameReader, Opened, Write, encode_frame

from .stores import DECLARE


@contextmanager
def process(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "triomq.store.process", "--fresh", "--wire", str(theirs.fileno()), str(directory)]
    started = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    ours.settimeout(20)
    with started, ours:
        yield started, ours


def test_it_serves_and_ends_with_its_wire(tmp_path: Path) -> None:
    with process(tmp_path) as (started, wire):
        reader = FrameReader()
        assert reader.feed(wire.recv(1 << 16)) == [Opened(0, [])]
        wire.sendall(encode_frame(Write(Batch(1, [DECLARE]))))
        assert reader.feed(wire.recv(1 << 16)) == [Committed(1)]
        wire.close()
        assert started.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_are_for_the_broker_do_not_end_it(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path) as (started, wire):
        wire.recv(1 << 16)
        started.send_signal(number)
        wire.sendall(encode_frame(Write(Batch(1, [DECLARE]))))
        assert FrameReader().feed(wire.recv(1 << 16)) == [Committed(1)]
