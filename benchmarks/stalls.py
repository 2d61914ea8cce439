"""Show for how long one client can hold the broker's loop, beside a healthy client that publishes and gets.

    python benchmarks/stalls.py --only queues bindbomb

Each attack has a broker of its own, with all doors open. Two figures count: the processor time of the longest pass of
the broker's loop, from one look for events to the next, which other work on the machine does not touch; and the longest
time that the healthy client waited for a confirm, which it does. ``--source`` runs a broker of another version,
``--size 0.05`` sends a twentieth of the usual numbers, and ``--most 20`` fails where a pass took more milliseconds.

The attacks of AMQP's topology are here, those of the other doors in ``stallsides``, a file for each door.
"""

import argparse
import contextlib
import gc
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import msgspec
import trio

import stallsides
from loadgen import frames
from loadgen.connection import CHANNEL, Address, Connection

CHUNK = 32 * 1024
"""Octets that an attacker sends at once."""


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    source: str | None
    serve: bool
    stacks: bool
    size: float
    most: float


# The broker


class Passes(trio.abc.Instrument):
    """A Trio instrument that times the passes of the loop."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.reset()

    def reset(self) -> None:
        """Forget what was seen."""
        self._began: float | None = None
        self.since: float | None = None
        self._step = time.thread_time()
        self._gc = 0.0
        self.worst = 0.0
        self.worst_gc = 0.0
        self.longest_step, self.where = 0.0, ""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Begin a step of a task."""
        self._step = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """End it, and remember whose the longest was."""
        taken = time.thread_time() - self._step
        if taken > self.longest_step:
            self.longest_step, self.where = taken, task.name.rpartition(".")[2]

    def after_io_wait(self, timeout: float) -> None:
        """Begin a pass."""
        self._began = time.thread_time()
        self.since = time.perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        """End a pass."""
        self.since = None
        if self._began is not None:
            self.worst = max(self.worst, time.thread_time() - self._began)

    def collecting(self, phase: str, info: dict[str, int]) -> None:
        """Time the collector too, which runs in the middle of passes."""
        if phase == "start":
            self._gc = time.thread_time()
        else:
            self.worst_gc = max(self.worst_gc, time.thread_time() - self._gc)


class Stacks(threading.Thread):
    """Looks every two milliseconds where the loop is, in passes that have taken ten on the clock."""

    def __init__(self, passes: Passes) -> None:
        """Look at the loop of the thread that makes it."""
        super().__init__(daemon=True)
        self._passes = passes
        self._loop = threading.get_ident()
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        """Look."""
        while True:
            time.sleep(0.002)
            began = self._passes.since
            if began is not None and time.perf_counter() - began > 0.01:
                names = []
                frame = sys._current_frames().get(self._loop)
                while frame is not None:
                    names.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
                    frame = frame.f_back
                self.seen[" < ".join(names[:12])] += 1

    def show(self) -> None:
        """Print where it was most often."""
        for names, count in self.seen.most_common(6):
            print(f"    {count:5} {names}", file=sys.stderr)
        self.seen.clear()


def serve(*, with_stacks: bool) -> None:
    """Run a broker that answers lines on standard input with what its loop has been through."""
    import trio

    from triomq.app import open_broker
    from triomq.core import Policy, PolicyOptions
    from triomq.endpoints import AMQP, EMQP, MTL, MicroMsg, RestMS, Tap

    passes = Passes()
    stacks = Stacks(passes)
    if with_stacks:
        stacks.start()
    gc.callbacks.append(passes.collecting)
    gc.set_threshold(10_000, 4, 1_250)  # as `triomq serve` has it

    async def main() -> None:
        here = "127.0.0.1"
        doors = (
            AMQP(host=here, port=0, channel_max=65_535),
            RestMS(host=here, port=0),
            MicroMsg(host=here, port=0, dynamic_queues=True, dynamic_topics=True),
            EMQP(host=here, port=0, topic_port=0, user="eve"),
            MTL(host=here, port=0),
            Tap(host=here, port=0),
        )
        async with open_broker(*doors, users={"eve": "eve", "bob": "bob"}, drain=0) as broker:
            print(json.dumps({type(each.config).__name__: each.port for each in broker.listening}), flush=True)
            trio.lowlevel.add_instrument(passes)
            for length in range(1, 1_000_000):
                line = (await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)).strip()
                if line == "reset":
                    stacks.show()
                    passes.reset()
                elif line == "policies":
                    await broker.set_policies([Policy("p", ".", PolicyOptions(max_length=length))])
                elif not line:
                    return
                queues = len(broker.directory.queues)
                print(json.dumps([passes.worst, passes.worst_gc, queues, passes.where]), flush=True)

    trio.run(main)


class Broker:
    """A broker in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Wait until it listens."""
        self._process = process
        assert process.stdout is not None
        self.ports: dict[str, int] = json.loads(process.stdout.readline())
        self.port = self.ports["AMQP"]

    def ask(self, line: str = "show") -> tuple[float, float, float, str]:
        """Ask for the longest pass, the longest of the collector, how many queues, and whose the longest step was."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        worst, collecting, queues, where = json.loads(self._process.stdout.readline())
        return worst, collecting, queues, where

    def settle(self) -> None:
        """Wait until the number of queues stays the same, and a little more."""
        before = -1.0
        while before != (before := self.ask()[2]):
            time.sleep(0.3)

    def connect(self, user: str = "eve") -> Connection:
        """Open a connection with a channel."""
        return Connection(Address("127.0.0.1", self.port, user, user))


@contextlib.contextmanager
def open_broker_process(source: str | None, *, with_stacks: bool) -> Iterator[Broker]:
    """Run a broker, of another version if there is another source."""
    environment = dict(os.environ, **({} if source is None else {"PYTHONPATH": source}))
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", *(["--stacks"] if with_stacks else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield Broker(process)
        finally:
            process.kill()


class Healthy:
    """A client that publishes a message and waits for its confirm, a hundred times a second."""

    def __init__(self, broker: Broker) -> None:
        """Begin."""
        self.worst = 0.0
        self.count = 0
        self.error = ""
        self._over = False
        self._connection = broker.connect("bob")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection = self._connection
        connection.call(frames.queue_declare(CHANNEL, "healthy"), frames.QUEUE_DECLARE_OK)
        connection.call(frames.confirm_select(CHANNEL), frames.CONFIRM_SELECT_OK)
        message = frames.publish(CHANNEL, "", "healthy", b"x" * 100, frame_max=connection.frame_max)
        connection.socket.settimeout(120)
        try:
            while not self._over:
                began = time.perf_counter()
                connection.call(message, (60, 80))
                self.worst = max(self.worst, time.perf_counter() - began)
                self.count += 1
                time.sleep(0.01)
        except (OSError, RuntimeError) as error:
            self.error = str(error)

    def stop(self) -> None:
        """End."""
        self._over = True
        self._thread.join()


# Attacks: each yields what it measures next; what is measured ends with the next one


def pour(connection: Connection, methods: Iterator[bytes]) -> str:
    """Send methods that are not answered, and wait for an answer behind them; tell what the broker says instead."""
    waiting = bytearray()
    try:
        for method in methods:
            waiting += method
            if len(waiting) > CHUNK:
                connection.socket.sendall(waiting)
                waiting.clear()
        connection.socket.settimeout(120)
        connection.call(bytes(waiting) + frames.basic_qos(CHANNEL, 0), frames.BASIC_QOS_OK)
    except (OSError, RuntimeError) as error:
        return str(error)[-110:]
    return "accepted"


def declares(count: int, *, exclusive: bool = True) -> Iterator[bytes]:
    """Declare queues."""
    for number in range(count):
        name = b"\0\0" + frames.short_string(f"q{number}")
        yield frames.method(CHANNEL, 50, 10, name + bytes([0x10 | int(exclusive) << 2]) + frames.long_string(b""))


def exchanges(count: int, kind: str) -> Iterator[bytes]:
    """Declare exchanges."""
    for number in range(count):
        names = frames.short_string(f"x{number}") + frames.short_string(kind)
        yield frames.method(CHANNEL, 40, 10, b"\0\0" + names + b"\x10" + frames.long_string(b""))


def bind(exchange: str, key: str, queue: str = "q0", arguments: bytes = b"") -> bytes:
    """Bind without an answer."""
    names = frames.short_string(queue) + frames.short_string(exchange) + frames.short_string(key)
    return frames.method(CHANNEL, 50, 20, b"\0\0" + names + b"\x01" + frames.long_string(arguments))


def publishes(exchange: str, keys: Iterator[str]) -> Iterator[bytes]:
    """Publish."""
    for key in keys:
        yield frames.publish(CHANNEL, exchange, key, b"", frame_max=131_072)


def distinct(words: int, count: int) -> Iterator[str]:
    """Give keys of so many short words, each with one word of its own at its end."""
    for number in range(count):
        yield ".".join(["a"] * (words - 1) + [f"{number:03}"])


def queues(broker: Broker, size: float) -> Iterator[str]:
    """Declare a million exclusive queues, and go."""
    count = int(1_000_000 * size)
    yield "declare"
    connection = broker.connect()
    said = pour(connection, declares(count))
    if said == "accepted":
        yield f"{said}; the end of {count}"
        connection.socket.close()
        broker.settle()
        return
    yield f"{said}; the end of 100,000"
    connection.socket.close()
    broker.settle()


def most_queues(broker: Broker, size: float) -> Iterator[str]:
    """Declare 100,000 exclusive queues; let policies apply, publish to all, and go."""
    yield "declare"
    connection = broker.connect()
    said = pour(connection, declares(int(100_000 * size)))
    yield f"{said}; policies for all"
    broker.ask("policies")
    yield "fanout to all"
    pour(connection, (bind("amq.fanout", "", f"q{number}") for number in range(int(100_000 * size))))
    broker.ask("reset")
    pour(connection, publishes("amq.fanout", iter(["1", "2"])))
    yield "the end of all"
    connection.socket.close()
    broker.settle()


def channels(broker: Broker, size: float) -> Iterator[str]:
    """Open as many channels as the broker lets us, and go."""
    yield "open on one"
    connection = broker.connect()
    opens = (frames.channel_open(number) for number in range(2, int(49_000 * size)))
    said = pour(connection, opens)
    yield f"{said}; the end of 49,000 on one"
    connection.socket.close()
    broker.settle()
    yield "open on 30 connections"
    connections = [broker.connect() for _ in range(30)]
    said = ""
    for one in connections:
        said = pour(one, (frames.channel_open(number) for number in range(2, int(2_048 * size))))
        if said != "accepted":
            break
    yield f"{said}; the end of all"
    for one in connections:
        one.socket.close()
    broker.settle()


def consumers(broker: Broker, size: float) -> Iterator[str]:
    """Consume 100,000 times on ten channels, and go; once more, delete the queue."""
    for ends in (True, False):
        yield "consume"
        connection = broker.connect()
        methods = list(declares(1, exclusive=False))
        for channel in range(2, 12):
            methods.append(frames.channel_open(channel))
            for number in range(int(9_999 * size)):
                names = frames.short_string("q0") + frames.short_string(f"c{number}")
                methods.append(frames.method(channel, 60, 20, b"\0\0" + names + b"\x08\0\0\0\0"))
        said = pour(connection, iter(methods))
        yield f"{said}; {'the end' if ends else 'delete the queue'}"
        if ends:
            connection.socket.close()
        else:
            connection.socket.sendall(frames.queue_delete(CHANNEL, "q0"))
        broker.settle()
        time.sleep(1)


def bindbomb(broker: Broker, size: float) -> Iterator[str]:
    """Bind with 3,000 patterns of 127 words of wildcards, then publish."""
    yield "bind"
    connection = broker.connect()
    chance = random.Random(1)
    patterns = (".".join(chance.choices("**a#", k=127)) for _ in range(int(3_000 * size)))
    setup = (declares(1), exchanges(1, "topic"), (bind("x0", pattern) for pattern in patterns))
    said = pour(connection, (method for part in setup for method in part))
    yield f"{said}; publish"
    connection = broker.connect()
    if not broker.ask()[2] > 1:
        pour(connection, declares(1))
    pour(connection, publishes("x0", distinct(127, 5)))


def most_patterns(broker: Broker, size: float) -> Iterator[str]:
    """Bind with the worst patterns that the limits allow, in as many exchanges that lead to each other, and publish."""
    yield "bind"
    connection = broker.connect()
    pour(connection, declares(1, exclusive=False))
    pour(connection, exchanges(4, "topic"))
    said = []
    for number in range(4):
        hashes = (".".join(["#", *words]) for words in product("*a", repeat=10))
        stars = (".".join(["*", *words]) for words in product("*a", repeat=12))
        said.append(pour(connection, (bind(f"x{number}", key) for key in [*list(hashes)[:200], *list(stars)[:3_800]])))
        if said[-1] != "accepted":
            connection = broker.connect()  # the channel is closed, and so would the next one be
            break
        link = frames.short_string(f"x{number + 1}") + frames.short_string(f"x{number}") + frames.short_string("#")
        if number < 3:
            pour(connection, iter([frames.method(CHANNEL, 40, 30, b"\0\0" + link + b"\x01\0\0\0\0")]))
    yield f"{said[-1]}; publish"
    pour(connection, publishes("x0", (f"{key}" for key in distinct(13, 200))))


def headers(broker: Broker, size: float) -> Iterator[str]:
    """Bind with 200,000 headers in an exchange, and publish."""
    yield "bind"
    connection = broker.connect()
    arguments = b"".join(frames.short_string(f"k{number}") + b"t\x01" for number in range(1_000))
    arguments += frames.short_string("x-match") + b"S" + frames.long_string(b"any")
    setup = (
        declares(1),
        exchanges(1, "headers"),
        (bind("x0", str(number), "q0", arguments) for number in range(int(200 * size))),
    )
    said = pour(connection, (method for part in setup for method in part))
    yield f"{said}; publish"
    pour(broker.connect(), publishes("x0", distinct(2, 20)))


def hashes(broker: Broker, size: float) -> Iterator[str]:
    """Bind 2,000 queues to a consistent-hash exchange, and unbind the heaviest."""
    yield "bind"
    connection = broker.connect()
    setup = (declares(2_000), exchanges(1, "x-consistent-hash"))
    pour(connection, (method for part in setup for method in part))
    said = pour(connection, (bind("x0", "1000000" if number == 7 else "1", f"q{number}") for number in range(2_000)))
    yield f"{said}; the end"
    connection.socket.close()
    broker.settle()


def bindings(broker: Broker, size: float) -> Iterator[str]:
    """Bind a queue 190,000 times to an exchange, delete the exchange; once more, delete the queue."""
    connection = broker.connect()
    for what in (frames.exchange_delete(CHANNEL, "x0"), frames.queue_delete(CHANNEL, "q0")):
        yield "bind"
        binds = (bind("x0", f"{number}.#") for number in range(int(190_000 * size)))
        setup = (declares(1, exclusive=False), exchanges(1, "topic"), binds)
        said = pour(connection, (method for part in setup for method in part))
        yield f"{said}; delete the {'queue' if b'q0' in what else 'exchange'}"
        connection.socket.sendall(what)
        broker.settle()
        time.sleep(3)
        connection = broker.connect()


def sinks(broker: Broker, size: float) -> Iterator[str]:
    """Make a chain of 10,000 exchanges, and publish into the first."""
    yield "declare"
    connection = broker.connect()
    count = int(9_999 * size)
    pour(connection, exchanges(count, "topic"))
    said = pour(
        connection,
        (
            frames.method(
                CHANNEL,
                40,
                30,
                b"\0\0" + frames.short_string(f"x{n + 1}") + frames.short_string(f"x{n}") + b"\x01#\x01\0\0\0\0",
            )
            for n in range(count - 1)
        ),
    )
    yield f"{said}; publish"
    pour(connection, publishes("x0", distinct(5, 20)))


ATTACKS: dict[str, Callable[[Broker, float], Iterator[str]]] = {
    attack.__name__.replace("_", "-"): attack
    for attack in (
        queues,
        most_queues,
        channels,
        consumers,
        bindbomb,
        most_patterns,
        headers,
        hashes,
        bindings,
        sinks,
        *stallsides.ATTACKS,
    )
}


def show(attack: str, what: str, broker: Broker, healthy: Healthy) -> float:
    """Print a line of the table, and begin anew; return the longest pass, in milliseconds."""
    worst, collecting, _, where = broker.ask()
    print(
        f"{attack:22} pass {worst * 1e3:8.1f} ms  collector {collecting * 1e3:7.1f} ms  "
        f"healthy {healthy.worst * 1e3:8.1f} ms  {where:24.24}  {what}{healthy.error and f' ({healthy.error})'}",
        flush=True,
    )
    healthy.worst = 0.0
    broker.ask("reset")
    return worst * 1e3


def run(name: str, options: Options) -> float:
    """Run one attack; return the longest pass of its broker, in milliseconds."""
    longest = 0.0
    with open_broker_process(options.source, with_stacks=options.stacks) as broker:
        healthy = Healthy(broker)
        time.sleep(0.5)
        broker.ask("reset")
        healthy.worst, before = 0.0, ""
        for what in ATTACKS[name](broker, options.size):
            if before:
                longest = max(longest, show(name, before, broker, healthy))
            before = what
        longest = max(longest, show(name, before, broker, healthy))
        healthy.stop()
    return longest


def main() -> None:
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--source", help="the folder of another version's source")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--stacks", action="store_true", help="show where the loop was in long passes")
    parser.add_argument("--size", type=float, default=1.0, help="a part of the usual numbers")
    parser.add_argument("--most", type=float, default=float("inf"), help="milliseconds that a pass may take")
    options = msgspec.convert(vars(parser.parse_args()), Options)
    if options.serve:
        serve(with_stacks=options.stacks)
        return
    longest = {name: run(name, options) for name in options.only}
    if over := [name for name, milliseconds in longest.items() if milliseconds > options.most]:
        sys.exit(f"passes of more than {options.most} ms: {', '.join(over)}")


if __name__ == "__main__":
    main()
