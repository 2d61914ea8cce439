"""What the engine of eMQP takes per message of frames, without ZeroMQ: best of several runs, in microseconds.

``python benchmarks/emqp_engine.py [--quick]``. Read the figures as ratios; two machines never agree.
"""

import sys
from collections.abc import Callable, Sequence

from engines import best
from triomq.protocols.emqp import (
    NO_HEADERS,
    BrokerEngine,
    Extension,
    Frames,
    PeerEngine,
    Role,
    make_headers,
    message_ids,
)
from triomq.protocols.emqp.engine import EMQPEngine

COUNT = 1000
CALL = b'["run", {"callable": "add", "path": "myjobs", "args": [1], "kwargs": {"b": 5}, "class_args": [], "more": {}}]'
FIRST = Extension(attempt=1)
ENDED = Extension(attempt=1, state="ok")
EXTENSION = Extension(attempt=1, priority=5, key="customer-17")


def pair(role: Role, *, is_extended: bool) -> tuple[PeerEngine, BrokerEngine]:
    """Make a peer and a broker that know each other."""
    peer = PeerEngine(role, message_ids(b"p" * 32), now=0.0, unix_time=0.0)
    broker = BrokerEngine(message_ids(b"b" * 32), now=0.0, unix_time=0.0)
    (inform,) = peer.messages_to_send()
    broker.receive(inform if is_extended else inform[:6])
    broker.acknowledge(inform[3])
    (ack,) = broker.messages_to_send()
    peer.receive(ack)
    return peer, broker


def receiving(engine: EMQPEngine, messages: Sequence[Frames]) -> Callable[[], int]:
    """Measure what it takes to receive messages."""
    taken = [list(message) for message in messages]  # as they come from a socket

    def work() -> int:
        receive = engine.receive
        for message in taken:
            receive(message)
        engine.messages_to_send()
        return len(taken)

    return work


def sending(engine: EMQPEngine, say: Callable[[], object]) -> Callable[[], int]:
    """Measure what it takes to make messages."""

    def work() -> int:
        for _ in range(COUNT):
            say()
        engine.messages_to_send()
        engine.notices_to_send()
        return COUNT

    return work


def said(engine: EMQPEngine, say: Callable[[], object]) -> list[Frames]:
    """Return what an engine says about so many commands."""
    for _ in range(COUNT):
        say()
    return engine.messages_to_send()


def main() -> None:
    """Print the table."""
    seconds = 0.05 if "--quick" in sys.argv else 1.0
    rows: list[tuple[str, float]] = []

    def measure(name: str, work: Callable[[], int]) -> None:
        rows.append((name, best(work, seconds)))

    headers = make_headers(reply_requested=True, guarantee=True, retry_count=2, timeout=5)
    for is_extended in (False, True):
        kind = "extended" if is_extended else "released"
        client, to_client = pair("client", is_extended=is_extended)
        worker, to_worker = pair("worker", is_extended=is_extended)
        requests = said(client, lambda: client.request("email", CALL, headers))  # noqa: B023  # called at once
        measure(f"{kind}: read REQUEST", receiving(to_client, requests))
        msgid = requests[0][3]
        measure(f"{kind}: write ACK", sending(to_client, lambda: to_client.acknowledge(msgid)))  # noqa: B023
        measure(
            f"{kind}: write REQUEST",
            sending(to_worker, lambda: to_worker.request(msgid, "email", headers, CALL)),  # noqa: B023
        )
        measure(f"{kind}: read REPLY", receiving(to_worker, said(worker, lambda: worker.reply(msgid, b'{"value": 5}'))))  # noqa: B023
        measure(f"{kind}: write REPLY", sending(to_client, lambda: to_client.reply(msgid, b'{"value": 5}')))  # noqa: B023
        measure(f"{kind}: read READY", receiving(to_worker, said(worker, worker.ready)))
        measure(f"{kind}: write READY", sending(worker, worker.ready))
        acks = said(to_client, lambda: to_client.acknowledge(msgid)) or to_client.notices_to_send()  # noqa: B023
        measure(f"{kind}: peer reads ACK", receiving(client, acks))
        replies = said(to_client, lambda: to_client.reply(msgid, b'{"value": 5}', ENDED))  # noqa: B023
        measure(f"{kind}: peer reads REPLY", receiving(client, replies))
        jobs = said(to_worker, lambda: to_worker.request(msgid, "email", headers, CALL, FIRST))  # noqa: B023
        measure(f"{kind}: peer reads REQUEST", receiving(worker, jobs))
        measure(f"{kind}: peer writes REQUEST", sending(client, lambda: client.request("email", CALL, headers)))  # noqa: B023
        measure(f"{kind}: peer writes REPLY", sending(worker, lambda: worker.reply(msgid, b'{"value": 5}', ENDED)))  # noqa: B023
    requests = said(client, lambda: client.request("email", CALL, NO_HEADERS, EXTENSION))
    measure("extended: read REQUEST with an extension frame", receiving(to_client, requests))
    measure(
        "extended: write REQUEST with one",
        sending(to_worker, lambda: to_worker.request(msgid, "email", headers, CALL, EXTENSION)),
    )
    measure("extended: read PUBLISH", receiving(to_client, said(client, lambda: client.publish("news", CALL))))
    measure("extended: write PUBLISH", sending(to_client, lambda: to_client.publish("news", CALL)))
    client.handle_timer(0.0)
    client.handle_timer(5.0)
    measure("extended: read HEARTBEAT", receiving(to_client, client.notices_to_send() * COUNT))

    for name, value in rows:
        print(f"{name:48} {value:8.2f} µs")


if __name__ == "__main__":
    main()
