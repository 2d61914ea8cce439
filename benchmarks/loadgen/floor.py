"""The floor: the same generator against a relay that knows no AMQP, to show what the generator itself can do.

The publisher sends prepared *deliveries*, the relay copies octets from publisher to consumer, as many as the consumer's
acknowledgements allow, and does nothing else. What this pair reaches no broker can be seen to exceed, and the relay's
processor time is what moving the octets through one Python process costs.
"""

import contextlib
import multiprocessing
import os
import select
import signal
import socket
import struct
from collections.abc import Iterator

from loadgen import frames, heads
from loadgen.batch import Batch
from loadgen.consumer import Consumer
from loadgen.flow import Flow, FlowResult
from loadgen.publisher import Publisher
from loadgen.work import Work

READ_SIZE = 1 << 16


def floor_of(work: Work) -> bool:
    """Whether the relay can stand in for a broker: pairs of publisher and consumer, without confirms."""
    return work.shape == "queues" and not work.confirms and not work.confirm_select


def delivery(queue: str, body: bytes, properties: bytes) -> bytes:
    """A basic.deliver with its content, as a broker would send it."""
    arguments = frames.short_string("load") + struct.pack(">QB", 1, 0) + b"\0" + frames.short_string(queue)
    header = frames.frame(frames.HEADER, 1, struct.pack(">HHQ", 60, 0, len(body)) + properties)
    return frames.method(1, 60, 60, arguments) + header + frames.frame(frames.BODY, 1, body)


class Lane:
    """One publisher's and one consumer's socket, and the octets between them.

    Args:
        source: the publisher's socket.
        target: the consumer's socket.
        credit: octets that may be relayed before the first acknowledgement, None for no limit.
        ack_credit: octets that one acknowledgement allows.
    """

    def __init__(self, source: socket.socket, target: socket.socket, credit: int | None, ack_credit: int) -> None:
        self.source = source
        self.target = target
        self._credit = credit
        self._ack_credit = ack_credit
        self._waiting = bytearray()
        self._acks = 0

    def forward(self) -> None:
        """Take a chunk from the publisher; in front of a consumer without acknowledgements it goes on as it is."""
        chunk = self.source.recv(READ_SIZE)
        if self._credit is None:
            self.target.sendall(chunk)
        else:
            self._waiting += chunk
            self._release()

    def acknowledged(self) -> None:
        """Take acknowledgements and release what they allow."""
        self._acks += len(self.target.recv(READ_SIZE))
        whole, self._acks = divmod(self._acks, frames.ACK_SIZE)
        self._credit = (self._credit or 0) + whole * self._ack_credit
        self._release()

    def _release(self) -> None:
        count = min(self._credit or 0, len(self._waiting))
        if count:
            self.target.sendall(self._waiting[:count])
            del self._waiting[:count]
            self._credit = (self._credit or 0) - count


def relay(lanes: list[Lane]) -> None:
    """Copy octets until the process is ended."""
    poll = select.epoll()
    handlers = {}
    for lane in lanes:
        handlers[lane.source.fileno()] = lane.forward
        handlers[lane.target.fileno()] = lane.acknowledged
    for descriptor in handlers:
        poll.register(descriptor, select.EPOLLIN)
    with contextlib.suppress(ConnectionError):
        while True:
            for descriptor, event in poll.poll():
                if event & select.EPOLLHUP:
                    return
                handlers[descriptor]()


def _connected_pair(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection over loopback, as a broker's sockets are."""
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


@contextlib.contextmanager
def open_relay(work: Work, size: int) -> Iterator[tuple[list[tuple[socket.socket, socket.socket]], int]]:
    """Run a relay process; gives the generator's (publisher, consumer) sockets and the process's id."""
    near: list[tuple[socket.socket, socket.socket]] = []
    lanes: list[Lane] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(work.width):
            (publisher, source), (consumer, target) = _connected_pair(listener), _connected_pair(listener)
            near.append((publisher, consumer))
            credit = work.prefetch * size if work.ack_every else None
            lanes.append(Lane(source, target, credit, work.ack_every * size))
    process = multiprocessing.get_context("fork").Process(target=relay, args=(lanes,), daemon=True)
    process.start()
    for lane in lanes:  # the relay has its own copies now
        lane.source.close()
        lane.target.close()
    try:
        yield near, process.pid or 0
    finally:
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        for publisher, consumer in near:
            publisher.close()
            consumer.close()


def measure(work: Work, seconds: float) -> FlowResult:
    """Measure the generator against the relay with the numbers of a work item."""
    body, differ = b"x" * work.size, work.heads == "differ"

    def encode(index: int) -> bytes:
        return delivery("load.00000000.0", body, heads.properties(index) if differ else b"\0\0")

    flow = Flow()
    with open_relay(work, len(encode(0))) as (pairs, pid):
        for source, target in pairs:
            batch = Batch.numbered(encode, work.batch_octets)
            publisher = Publisher(
                source, batch, limit=work.limit, share=1, confirms=False, on_blocked=flow.wait_for_room
            )
            consumer = Consumer(target, b"", channel=1, ack_every=work.ack_every, on_progress=publisher.fill)
            publisher.consumers.append(consumer)
            flow.add_publisher(publisher)
            flow.add_consumer(consumer)
        return flow.measure(seconds, [pid])
