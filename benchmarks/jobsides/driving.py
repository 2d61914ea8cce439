"""The client of a benchmark: a process that does what it reads from its standard input, and prints how long it took.

    send noop 5000      sends so many jobs as fast as the library can; prints the seconds
    one noop 5000       sends them one by one; prints the seconds
    trip 200            sends one job, waits until it has run, and so on; prints the milliseconds of each
    call 200            the same, and waits for its result
    await 200           the same for a coroutine
    delay 100000        sends jobs that begin in an hour

A side is one library: its module makes a `Client`; triomq's does all that by itself, in Trio. Runs in environments
without triomq.
"""

import json
import os
import socket
import sys
import time
from typing import Protocol


class Client(Protocol):
    """How a library sends jobs; what it cannot do raises NotImplementedError."""

    def send(self, name: str, count: int) -> None:
        """Send so many jobs of a name."""

    def delay(self, count: int) -> None:
        """Send so many jobs that begin in an hour."""

    def call(self) -> None:
        """Send a job, and wait for its result."""


def drive(client: Client) -> None:
    """Do what is asked until there are no lines any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as knocks:
        if os.path.exists(os.environ["JOBS_KNOCK"]):
            os.unlink(os.environ["JOBS_KNOCK"])
        knocks.bind(os.environ["JOBS_KNOCK"])
        knocks.settimeout(20)
        print("ready", flush=True)
        for line in sys.stdin:
            try:
                answer: object = _do(client, knocks, *line.split())
            except NotImplementedError:
                answer = None
            print(json.dumps(answer), flush=True)


def _do(client: Client, knocks: socket.socket, verb: str, *words: str) -> object:
    began = time.perf_counter()
    if verb == "await":
        raise NotImplementedError
    if verb in ("send", "one"):  # there is one way only
        client.send(words[0], int(words[1]))
        return time.perf_counter() - began
    if verb == "delay":
        client.delay(int(words[0]))
        return time.perf_counter() - began
    taken = []
    for _ in range(int(words[0])):
        began = time.perf_counter()
        if verb == "trip":
            client.send("knock", 1)
            knocks.recv(1)
        else:
            client.call()
        taken.append((time.perf_counter() - began) * 1000)
    return taken
