"""Show what strangers and users without rights can do to the ports of ZeroMQ, beside a healthy client of AMQP.

    python benchmarks/zmtp_attacks.py --only parts hellos

Each attack has a broker of its own, whose eMQP asks for a password and whose MTL does not. A row says what was sent
until the broker ended the connections, the broker's memory (before, the most, when all has been sent, when all have
gone), its processor time, the longest pass of its loop, and how long the healthy client, a process of its own that
publishes a hundred times a second, waited for its confirms. ``--source`` runs a broker of another version, ``--quick``
sends a twentieth of the usual numbers, and ``--most 20`` fails where a pass took more milliseconds.
"""

import argparse
import contextlib
import gc
import json
import os
import resource
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat

import msgspec

from loadgen import frames
from loadgen.connection import CHANNEL, Address, Connection
from stalls import Passes

HERE = "127.0.0.1"
MIB = 1024 * 1024
SECONDS = 30.0
"""For how long an attack sends at most."""


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    source: str | None
    quick: bool
    most: float
    serve: int
    healthy: int


# The broker, and the client beside it


def serve(topic_port: int) -> None:
    """Run a broker that answers lines on standard input with the longest pass of its loop."""
    import trio

    from triomq.app import User, open_broker
    from triomq.endpoints import AMQP, EMQP, MTL
    from triomq.security import ALL, Permission

    passes = Passes()
    gc.set_threshold(10_000, 4, 1_250)  # as `triomq serve` has it
    users = {
        "bob": User(password="bob", permissions={"*": ALL}),
        "eve": User(password="eve", permissions={"*": Permission("", "eve", "eve")}),
    }
    doors = (
        AMQP(host=HERE, port=0),
        EMQP(host=HERE, port=0, topic_port=topic_port, security="plain"),
        MTL(host=HERE, port=0),
    )

    async def main() -> None:
        async with open_broker(*doors, users=users, drain=0) as broker:
            print(json.dumps({type(each.config).__name__: each.port for each in broker.listening}), flush=True)
            trio.lowlevel.add_instrument(passes)
            while line := (await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)).strip():
                if line == "reset":
                    passes.reset()
                print(passes.worst, flush=True)

    trio.run(main)


def publish_healthily(port: int) -> None:
    """Publish a message and wait for its confirm, a hundred times a second, until standard input ends."""
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    connection = Connection(Address(HERE, port, "bob", "bob"))
    connection.call(frames.queue_declare(CHANNEL, "healthy"), frames.QUEUE_DECLARE_OK)
    connection.call(frames.confirm_select(CHANNEL), frames.CONFIRM_SELECT_OK)
    message = frames.publish(CHANNEL, "", "healthy", b"x" * 100, frame_max=connection.frame_max)
    connection.socket.settimeout(120)
    waited = []
    print("ready", flush=True)
    while not over.wait(0.01):
        began = time.perf_counter()
        try:
            connection.call(message, (60, 80))
        except (OSError, RuntimeError):  # the broker has let it go; it shows in the longest wait
            over.set()
        waited.append(time.perf_counter() - began)
    parts = statistics.quantiles(waited, n=100, method="inclusive")
    print(json.dumps([parts[49], parts[98], max(waited)]), flush=True)


class Child:
    """A part of this program, in a process of its own that talks by lines."""

    def __init__(self, arguments: list[str], source: str | None = None) -> None:
        """Start it."""
        environment = dict(os.environ, **({} if source is None else {"PYTHONPATH": source}))
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def hear(self) -> str:
        """Wait for its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, line: str) -> str:
        """Say a line, and wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.hear()

    def end(self) -> str:
        """End its input; return its last line."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.hear()


class Broker(Child):
    """A broker, and what the system says of its process."""

    def __init__(self, source: str | None) -> None:
        """Start it, and wait until it listens."""
        with socket.create_server((HERE, 0)) as free:
            self.topics: int = free.getsockname()[1]
        super().__init__(["--serve", str(self.topics)], source)
        ports = json.loads(self.hear())
        self.amqp, self.emqp, self.mtl = ports["AMQP"], ports["EMQP"], ports["MTL"]

    def memory(self, which: str = "VmRSS") -> float:
        """Return MiB of memory: ``VmRSS`` now, ``VmHWM`` the most so far."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(which)) / 1024

    def processor_time(self) -> float:
        """Return seconds of all its threads."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ZeroMQ's wire


def greeting(mechanism: bytes) -> bytes:
    """Return the 64 octets that begin a connection (RFC 37)."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


def frame(flags: int, body: bytes) -> bytes:
    """Return a frame."""
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | 2,)) + len(body).to_bytes(8, "big") + body


def command(name: bytes, data: bytes) -> bytes:
    """Return a command."""
    return frame(4, bytes((len(name),)) + name + data)


def metadata(kind: bytes, identity: bytes = b"") -> bytes:
    """Return the properties of a socket."""
    pairs = ((b"Socket-Type", kind), (b"Identity", identity))
    return b"".join(bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value for name, value in pairs)


class Peer:
    """A socket that speaks raw octets, and counts those that the system took."""

    def __init__(self, port: int, address: str = HERE) -> None:
        """Connect, from some address of the loopback."""
        self.socket = socket.socket()
        self.socket.settimeout(10)
        self.socket.bind((address, 0))
        self.socket.connect((HERE, port))
        self.sent = 0

    def hear(self, word: bytes) -> bool:
        """Read until a word comes; say whether it did."""
        heard = b""
        with contextlib.suppress(OSError):
            while word not in heard:
                if not (octets := self.socket.recv(4096)):
                    return False
                heard = heard[-100:] + octets
            return True
        return False

    def greet(self, kind: bytes) -> "Peer":
        """Say READY, with NULL."""
        self.socket.sendall(greeting(b"NULL") + command(b"READY", metadata(kind)))
        assert self.hear(b"READY")
        return self

    def log_in(self, user: bytes, kind: bytes, identity: bytes = b"") -> bool:
        """Say who it is, with PLAIN; return whether it was let in."""
        named = bytes((len(user),)) + user
        self.socket.sendall(greeting(b"PLAIN") + command(b"HELLO", named + named))
        if not self.hear(b"WELCOME"):
            return False
        self.socket.sendall(command(b"INITIATE", metadata(kind, identity)))
        return self.hear(b"READY")

    def pour(self, pieces: Iterator[bytes], seconds: float = SECONDS) -> bool:
        """Send without reading until the broker ends the connection, takes no more for a while, or all is sent."""
        until = time.monotonic() + seconds
        self.socket.settimeout(2)
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    if self.hears_the_end():
                        return True
                    taken = self.socket.send(rest)
                    self.sent += taken
                    rest = rest[taken:]
                    if time.monotonic() > until:
                        return False
        except TimeoutError:
            return False
        except OSError:
            return True
        return self.is_ended()

    def hears_the_end(self) -> bool:
        """Say whether the broker has said that it sends no more; what it sent before stays unread."""
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return bool(poll.poll(0))

    def is_ended(self, seconds: float = 0.5) -> bool:
        """Say whether the broker ends the connection, or has."""
        until = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            try:
                while time.monotonic() < until:
                    self.socket.settimeout(seconds)
                    if not self.socket.recv(65536):
                        return True
            except OSError as error:
                if isinstance(error, TimeoutError):
                    raise
                return True
        return False


class Outcome(msgspec.Struct):
    """What an attack has come to, and the sockets that are open still."""

    sent: int = 0
    said: str = ""
    peers: list[Peer] = msgspec.field(default_factory=list)


def log_in(port: int, user: bytes, kind: bytes) -> Peer:
    """Connect as a user of eMQP."""
    peer = Peer(port)
    assert peer.log_in(user, kind)
    return peer


def poured(peer: Peer, pieces: Iterator[bytes], seconds: float = SECONDS) -> Outcome:
    """Send from one peer."""
    ended = peer.pour(pieces, seconds)
    return Outcome(peer.sent, "ended" if ended else "still open", [peer])


# Attacks


def parts(broker: Broker, size: float) -> Outcome:
    """Send 30 frames of 10 MB of one message, with a login."""
    return poured(log_in(broker.emqp, b"eve", b"DEALER"), repeat(frame(1, bytes(10_000_000)), 30))


def empty_parts(broker: Broker, size: float) -> Outcome:
    """Send 5,000,000 empty frames of one message, without a login."""
    return poured(Peer(broker.mtl).greet(b"DEALER"), repeat(b"\x01\x00" * 10_000, int(500 * size)))


def hellos(broker: Broker, size: float) -> Outcome:
    """Send HELLO of 16 MB, all but ten octets, on 40 connections that have no password."""
    outcome, ended = Outcome(), 0
    octets = command(b"HELLO", bytes(16_000_000))[:-10]
    for number in range(max(2, int(40 * size))):
        peer = Peer(broker.topics if number % 2 else broker.emqp)
        ended += peer.pour(iter((greeting(b"PLAIN"), octets)), 5)
        outcome.sent += peer.sent
        outcome.peers.append(peer)
    outcome.said = f"{ended} of {len(outcome.peers)} ended"
    return outcome


def silent(broker: Broker, size: float) -> Outcome:
    """Connect 10,000 times from 20 addresses, and say nothing."""
    outcome, refused, count = Outcome(), 0, int(10_000 * size)
    for number in range(count):
        try:
            outcome.peers.append(Peer(broker.emqp, f"127.0.1.{1 + number % 20}"))
        except OSError:
            refused += 1
    time.sleep(1)

    def open_still() -> int:
        poll, ended = select.poll(), set()
        for peer in outcome.peers:
            poll.register(peer.socket, select.POLLIN)
        for number, _ in poll.poll(0):
            with contextlib.suppress(BlockingIOError):
                try:
                    with socket.socket(fileno=os.dup(number)) as one:
                        one.setblocking(False)
                        while octets := one.recv(4096):
                            del octets
                    ended.add(number)
                except ConnectionError:
                    ended.add(number)
        return len(outcome.peers) - len(ended)

    now = open_still()
    time.sleep(11)
    outcome.said = f"{refused} not taken, {now} of {count} open, {open_still()} after 11 s"
    return outcome


def greeted(broker: Broker, size: float) -> Outcome:
    """Connect 5,000 times, say READY, and nothing more."""
    outcome, before = Outcome(), broker.memory()
    for _ in range(int(5_000 * size)):
        outcome.peers.append(Peer(broker.mtl).greet(b"DEALER"))
    outcome.said = f"{(broker.memory() - before) * 1024 / len(outcome.peers):.1f} KiB each"
    return outcome


def topic(broker: Broker, size: float) -> Outcome:
    """Subscribe to one topic of 20 MB, without the right to read."""
    return poured(log_in(broker.topics, b"eve", b"SUB"), iter((frame(0, b"\1" + b"z" * 20_000_000),)))


def topics(broker: Broker, size: float) -> Outcome:
    """Subscribe to 300,000 short topics, with the right to read."""
    count = int(300_000 * size)
    numbers = range(0, count, 1_000)
    pieces = (b"".join(command(b"SUBSCRIBE", b"t%d" % (at + n)) for n in range(1_000)) for at in numbers)
    return poured(log_in(broker.topics, b"bob", b"SUB"), pieces)


def pings(broker: Broker, size: float) -> Outcome:
    """Send 1,700,000 PINGs with a context, and read no answer."""
    pieces = repeat(command(b"PING", b"\0\0" + b"c" * 16) * 1_000, int(1_700 * size))
    return poured(Peer(broker.mtl).greet(b"DEALER"), pieces)


def identities(broker: Broker, size: float) -> Outcome:
    """Come 2,000 times with the identity of a peer of another user, who is to stay."""
    outcome, taken = Outcome(), 0
    count = int(2_000 * size)
    bob = Peer(broker.emqp)
    assert bob.log_in(b"bob", b"DEALER", b"worker-1")
    outcome.peers.append(bob)
    until = time.monotonic() + SECONDS
    for number in range(count):
        if time.monotonic() > until:
            count = number
            break
        peer = Peer(broker.emqp)
        taken += peer.log_in(b"eve", b"DEALER", b"worker-1") and not peer.is_ended(0.2)
        peer.socket.close()
    bob.socket.sendall(command(b"PING", b"\0\0here"))
    outcome.said = f"{taken} of {count} stayed; the first one is {'there' if bob.hear(b'PONGhere') else 'gone'}"
    return outcome


ATTACKS: dict[str, Callable[[Broker, float], Outcome]] = {
    attack.__name__.replace("_", "-"): attack
    for attack in (parts, empty_parts, hellos, silent, greeted, topic, topics, pings, identities)
}


def run(name: str, options: Options) -> float:
    """Run one attack, and print its row; return the longest pass, in milliseconds."""
    broker = Broker(options.source)
    healthy = Child(["--healthy", str(broker.amqp)])
    try:
        assert healthy.hear()
        time.sleep(0.5)
        broker.ask("reset")
        before, worked = broker.memory(), broker.processor_time()
        outcome = ATTACKS[name](broker, 0.05 if options.quick else 1.0)
        sent = broker.memory()
        for peer in outcome.peers:
            peer.socket.close()
        time.sleep(0.5 if options.quick else 3)
        worked, most, after = broker.processor_time() - worked, broker.memory("VmHWM"), broker.memory()
        half, nearly, worst = (1e3 * seconds for seconds in json.loads(healthy.end()))
        longest = float(broker.ask("show")) * 1e3
    finally:
        for child in (healthy, broker):
            child.process.kill()
            child.process.wait()
    print(
        f"{name:12} sent {outcome.sent / 1e6:7.2f} MB  memory {before:5.0f} {most:5.0f} {sent:5.0f} {after:5.0f} MiB  "
        f"processor {worked:5.2f} s  pass {longest:7.1f} ms  healthy {half:5.1f} {nearly:6.1f} {worst:7.1f} ms  "
        f"{outcome.said}",
        flush=True,
    )
    return longest


def main() -> None:
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--source", help="the folder of another version's source")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the usual numbers")
    parser.add_argument("--most", type=float, default=float("inf"), help="milliseconds that a pass may take")
    parser.add_argument("--serve", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--healthy", type=int, default=0, help=argparse.SUPPRESS)
    options = msgspec.convert(vars(parser.parse_args()), Options)
    if options.serve:
        serve(options.serve)
        return
    if options.healthy:
        publish_healthily(options.healthy)
        return
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    print(f"load {os.getloadavg()[0]:.1f}; memory: before, the most, all sent, all gone; healthy: p50, p99, worst")
    longest = {name: run(name, options) for name in options.only}
    if over := [name for name, milliseconds in longest.items() if milliseconds > options.most]:
        sys.exit(f"passes of more than {options.most} ms: {', '.join(over)}")


if __name__ == "__main__":
    main()
