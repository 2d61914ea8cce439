"""What ZeroMQ sockets under Trio cost beside blocking pyzmq: processor time for each message, in the same run.

    python benchmarks/zeromq.py [--messages 100000] [--rounds 3] [--quick]

A ROUTER in this process and a DEALER that blocks in another one, over loopback. The ROUTER is ours (``Router``), or
pyzmq's own with blocking calls of ``recv_multipart`` and ``send_multipart``, or with the backend's calls that ours
makes (one call for each frame, which is cheaper from three frames on). All have a high water mark of 1000 messages.

What counts is the CPU of this process, with the threads of libzmq, and the ratio of ours to each of the others; both
swing with what else the machine does, so rounds alternate, and the lowest of each is shown.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import TypeAlias

import trio
import zmq
from zmq.backend import Socket as Backend

from triomq.transports.zmq import Received, Router, close_context, make_context

WINDOW = 1000
"""Messages on their way in each direction, so that neither side's buffers decide."""

SHAPES = {
    "2 frames, 100 B": [b"x" * 100],
    "8 frames, 200 B": [b"", b"eMQP/1.0", b"REQUEST", b"m" * 36, b"q", b"h" * 15],
}
SHAPES["8 frames, 200 B"].append(b"p" * 110)

Serve: TypeAlias = Callable[[int, "Peer"], None]


class Peer:
    """The other process: a DEALER that blocks, which sends, receives, or both.

    Args:
        direction: ``in`` to the ROUTER, ``out`` of it, or ``echo``.
        frames: What it sends.
        count: How many messages.
    """

    def __init__(self, direction: str, frames: list[bytes], count: int) -> None:
        self.direction = direction
        self.frames = frames
        self.count = count

    def start(self, address: str) -> None:
        self._process = get_context("spawn").Process(
            target=run_peer, args=(address, self.direction, self.frames, self.count), daemon=True
        )
        self._process.start()

    def join(self) -> None:
        self._process.join()
        assert self._process.exitcode == 0


def run_peer(address: str, direction: str, frames: list[bytes], count: int) -> None:
    """Do the other side's part; it is not measured."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.identity = b"peer!"
        socket.connect(address)
        socket.send_multipart([b"hello"])
        socket.recv_multipart()
        ahead = 0
        for _ in range(count):
            if direction != "out":
                socket.send_multipart(frames)
                ahead += 1
            if direction == "out" or (direction == "echo" and ahead == WINDOW):
                socket.recv_multipart()
                ahead -= 1
        for _ in range(ahead if direction == "echo" else 0):
            socket.recv_multipart()
        socket.send_multipart([b"done"])
        socket.recv_multipart()


def serve_blocking(peer: Peer, receive: Callable[..., list[bytes]], send: Callable[..., object]) -> float:
    """Serve the peer with blocking calls, and return the processor time that it took."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        peer.start(f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
        socket.router_mandatory = True  # otherwise it drops what it has no room for
        identity, *_ = receive(socket)
        send(socket, [identity, b"hello"])
        began = time.process_time()
        for _ in range(peer.count):
            if peer.direction == "in":
                receive(socket)
            elif peer.direction == "out":
                send(socket, [identity, *peer.frames])
            else:
                send(socket, receive(socket))
        receive(socket)
        taken = time.process_time() - began
        send(socket, [identity, b"bye"])
        peer.join()
    return taken


def receive_by_frames(socket: zmq.Socket[bytes]) -> list[bytes]:
    frame = Backend.recv(socket, 0, False)
    frames = [frame.bytes]
    while frame.more:
        frame = Backend.recv(socket, 0, False)
        frames.append(frame.bytes)
    return frames


def send_by_frames(socket: zmq.Socket[bytes], frames: list[bytes]) -> None:
    for frame in frames[:-1]:
        Backend.send(socket, frame, zmq.SNDMORE)
    Backend.send(socket, frames[-1], 0)


def blocking(peer: Peer) -> float:
    return serve_blocking(peer, zmq.Socket.recv_multipart, zmq.Socket.send_multipart)


def blocking_by_frames(peer: Peer) -> float:
    return serve_blocking(peer, receive_by_frames, send_by_frames)


def ours(peer: Peer) -> float:
    return trio.run(_ours, peer)


async def _ours(peer: Peer) -> float:
    context = make_context()
    began = 0.0
    ended = trio.Event()
    taken = 0.0

    def received(found: Received) -> None:
        nonlocal began, taken
        for (identity, _), messages in found.items():
            for frames in messages:
                took(identity, frames)

    def took(identity: bytes, frames: list[bytes]) -> None:
        nonlocal began, taken
        if frames == [b"hello"]:
            router.send_to(identity, [b"hello"])
            began = time.process_time()
            nursery.start_soon(send_all, identity)
        elif frames == [b"done"]:
            taken = time.process_time() - began
            router.send_to(identity, [b"bye"])
            ended.set()
        elif peer.direction == "echo":
            router.send_to(identity, frames)

    drained = trio.Event()

    async def send_all(identity: bytes) -> None:
        nonlocal drained
        if peer.direction == "out":
            for number in range(peer.count):
                router.send_to(identity, peer.frames)
                if not number % 100:
                    await trio.lowlevel.checkpoint()
                if router.unsent(identity) > 100_000:
                    drained = trio.Event()
                    await drained.wait()

    router = Router(context, received, drained=lambda identity: drained.set(), high_water=1000)
    peer.start(router.bind("tcp://127.0.0.1:0"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        await ended.wait()
        await trio.to_thread.run_sync(peer.join)
        router.close()
    await close_context(context)
    return taken


KINDS: dict[str, Callable[[Peer], float]] = {"ours": ours, "blocking": blocking, "by frames": blocking_by_frames}


def measure(count: int, rounds: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'µs CPU a message':26}" + "".join(f"{kind:>12}" for kind in KINDS) + f"{'ours / blocking, by frames':>30}"
    for shape, frames in SHAPES.items():
        for direction in ("in", "out", "echo"):
            best = dict.fromkeys(KINDS, float("inf"))
            for _ in range(rounds):
                for kind, serve in KINDS.items():
                    best[kind] = min(best[kind], serve(Peer(direction, frames, count)) / count * 1e6)
            figures = "".join(f"{best[kind]:12.2f}" for kind in KINDS)
            ratios = f"{best['ours'] / best['blocking']:.2f}, {best['ours'] / best['by frames']:.2f}"
            yield f"{shape + ', ' + direction:26}{figures}{ratios:>30}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a few messages, to see that it works")
    arguments = parser.parse_args()
    count, rounds = (1000, 1) if arguments.quick else (arguments.messages, arguments.rounds)
    for line in measure(count, rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
