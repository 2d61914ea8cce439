"""Schedules of a broker that is killed again and again: each tick is in the queue once, or not at all."""

import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import trio
import zmq

from endpoints.emqp.conftest import CALL
from ports import free_port
from triomq.app import open_broker

BROKER = """
import sys, trio
from triomq.app import open_broker
from triomq.endpoints import EMQP

async def main():
    async with open_broker(EMQP(port=int(sys.argv[1])), data_dir=sys.argv[2]):
        print("ready", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""
KILLS = 3


def start(port: int, data: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", BROKER, str(port), str(data)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def schedule(port: int) -> None:
    """Set a schedule, and wait for its ACK."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.identity = str(uuid.uuid4()).encode()
    dealer.connect(f"tcp://127.0.0.1:{port}")
    dealer.send_multipart([b"", b"eMQP/1.0", b"SCHEDULE", b"s", b"", b"nohaste,guarantee", b"1", CALL, b""])
    assert dealer.poll(60_000)
    assert dealer.recv_multipart()[2] == b"ACK"
    context.destroy(linger=0)


async def ticks_of(data: Path) -> list[str | None]:
    """List the ids of the jobs that are in the queue."""
    async with open_broker(data_dir=data) as broker:
        return [message.properties.message_id for message in await broker.queue("default").browse(limit=1000)]


def test_each_tick_is_sent_once_however_often_the_broker_is_killed(tmp_path: Path) -> None:
    port = free_port()
    data = tmp_path / "data"
    process = start(port, data)
    schedule(port)
    began = time.monotonic()
    for number in range(KILLS):
        time.sleep(1.0 + number * 0.013)  # at another place in the second each time
        kill(process)
        process = start(port, data)
    kill(process)
    seconds = time.monotonic() - began
    ticks = trio.run(ticks_of, data)
    assert len(set(ticks)) == len(ticks)
    assert 1 <= len(ticks) <= seconds + 1
