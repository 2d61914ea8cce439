"""A program that leaves a broker or a client open ends, by itself, with its own exit code, and loses nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.left_open import ENDS, FACES
from triomq import AMQP, EMQP, Tap, open_blocking_broker

PROGRAM = Path(__file__).with_name("left_open.py")

CODES = {"raises": 1, "exits": 7}

URLS = {
    "blocking_client": "amqp://guest:guest@127.0.0.1:{0}/",
    "blocking_jobs": "emqp://127.0.0.1:{1}",
    "jobs_when_needed": "emqp://127.0.0.1:{1}",
    "tap": "tap://guest:guest@127.0.0.1:{2}",
}
"""Of the faces that are clients of a broker elsewhere."""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("face", sorted(FACES))
def test_program_that_closes_nothing_ends_with_its_own_code(face: str, end: str, tmp_path: Path) -> None:
    with open_blocking_broker(AMQP(port=0), EMQP(port=0), Tap(port=0)) as broker:
        broker.declare_queue("q")
        ports = [listening.port for listening in broker.listening]
        url = URLS.get(face, "").format(*ports)
        done = subprocess.run(
            [sys.executable, PROGRAM, face, end, tmp_path, url], capture_output=True, text=True, timeout=60
        )
        assert (done.stdout, done.returncode) == ("confirmed\n", CODES.get(end, 0)), done.stderr
        assert ("Traceback" in done.stderr) == (end == "raises"), done.stderr
    if not url:
        with open_blocking_broker(data_dir=tmp_path) as again:
            assert again.queue("q").statistics().ready == 1
