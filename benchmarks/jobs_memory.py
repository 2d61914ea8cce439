"""What memory a broker has while a million jobs go through it: it must stay flat.

    python benchmarks/jobs_memory.py [--jobs 1000000] [--keep SECONDS] [--unique] [--data]

A client and two workers as in ``emqp.py``, with extensions, so that all jobs are in the book of jobs. With ``--unique``
each has a unique key of its own, with ``--keep`` its result is kept, and with ``--data`` all of them are durable, and
the store's process is measured too. Each line is after a tenth of the jobs.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import zmq

from emqp import CALL, VERSION, Broker, dealer, inform

WINDOW = 500


def resident(process: int) -> int:
    """Return the resident bytes of a process and its children."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if int(fields["Pid"]) == process or int(fields["PPid"]) == process:
            total += int(fields.get("VmRSS", "0").split()[0]) * 1024
    return total


def extension(number: int, given: argparse.Namespace) -> bytes:
    """Return what a job asks for."""
    fields = ['"v":1']
    if given.keep:
        fields.append(f'"keep":{given.keep * 1000}')
    if given.unique:
        fields.append(f'"unique":"u{number}"')
    return ("{" + ",".join(fields) + "}").encode()


def send_all(port: int, given: argparse.Namespace) -> Iterator[int]:
    """Send all jobs; yield how many are answered, after each tenth of them."""
    headers = b"reply-requested,guarantee" if given.data else b"reply-requested"
    with zmq.Context() as context:
        peer = dealer(context, port)
        inform(peer, b"client", b"", extended=True)
        answered, shown = 0, given.jobs // 10
        for number in range(given.jobs):
            frames = [b"", VERSION, b"REQUEST", b"%033d" % number, b"memory", headers, CALL]
            peer.send_multipart([*frames, extension(number, given)] if given.keep or given.unique else frames)
            while number - answered > WINDOW or peer.poll(0) or (number == given.jobs - 1 and answered < given.jobs):
                answered += peer.recv_multipart()[2] == b"REPLY"
                if answered == shown:
                    shown += given.jobs // 10
                    yield answered


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--keep", type=int, default=0, help="seconds")
    parser.add_argument("--unique", action="store_true")
    parser.add_argument("--data", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), durable=given.data)
        try:
            with broker.workers("memory", counts=True):
                print(f"{'jobs':>10}{'MiB':>8}{'jobs/s':>10}")
                print(f"{0:10,}{resident(broker.process) / 2**20:8.1f}")
                began, before = time.perf_counter(), 0
                for answered in send_all(broker.port, given):
                    seconds = time.perf_counter() - began
                    rate = (answered - before) / seconds
                    print(f"{answered:10,}{resident(broker.process) / 2**20:8.1f}{rate:10,.0f}", flush=True)
                    began, before = time.perf_counter(), answered
        finally:
            broker.close()


if __name__ == "__main__":
    main()
