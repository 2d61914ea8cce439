"""The work items: what is published, to whom, and how it is acknowledged."""

from collections.abc import Iterable
from typing import Literal

import msgspec

UNDER_WAY_MESSAGES = 20_000  # enough to keep a broker busy, little enough that no queue grows
UNDER_WAY_OCTETS = 16 << 20  # the same for large bodies
BATCH_OCTETS = 1 << 16


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of load.

    Args:
        name: what `--only` selects it by.
        title: what the table calls it.
        size: octets of the body.
        shape: `queues` pairs publisher i with queue i and consumer i through the default exchange; `fanout` and `topic`
            have one publisher in front of all queues, a message going to all of them or to one in turn.
        width: number of queues, each with one consumer.
        ack_every: 0 for no-ack, otherwise how many deliveries one basic.ack settles.
        prefetch: basic.qos of each consumer, 0 for none.
        under_way: how many messages a publisher may be ahead; 0 takes the default for the size.
        batch_octets: how much a publisher sends at once.
        confirms: a publisher waits for confirms and has `under_way` unconfirmed publishes at most.
        confirm_select: confirms are asked for, and read, but not waited for.
        pipelined: as `confirms`, but a publisher sends whole batches, and waits for its consumers as well, so that no
            queue grows and what is delivered in a window is as much as what is confirmed in it.
        durable: durable queues and persistent messages.
        other_bindings: bindings of a topic exchange that match nothing that is published.
        consumer_channel: channel number of the consumers; publishers have 1.
        heads: `differ` gives each message the properties of `heads.py`, and a fanout sixteen keys in turn; `same` none.
        stamped: each body begins with the moment of its sending, so that the result has percentiles of latency.
    """

    name: str
    title: str
    size: int = 100
    shape: Literal["queues", "fanout", "topic"] = "queues"
    width: int = 1
    ack_every: int = 0
    prefetch: int = 0
    under_way: int = 0
    batch_octets: int = BATCH_OCTETS
    confirms: bool = False
    confirm_select: bool = False
    pipelined: bool = False
    durable: bool = False
    other_bindings: int = 0
    consumer_channel: int = 1
    heads: Literal["same", "differ"] = "same"
    stamped: bool = False

    @property
    def limit(self) -> int:
        """Messages that each publisher may be ahead of its consumers."""
        return self.under_way or min(UNDER_WAY_MESSAGES, max(64, UNDER_WAY_OCTETS // self.size))


class ConfirmWork(msgspec.Struct, frozen=True, kw_only=True):
    """Persistent messages at a fixed rate, of which the time from publish to confirm counts.

    Args:
        name: what `--only` selects it by.
        title: what the table calls it.
        rate: messages per second.
        size: octets of the body.
        floods: publisher and consumer pairs that run at full speed beside it, without acks, on transient queues.
    """

    name: str
    title: str
    rate: float
    size: int = 100
    floods: int = 0


class LatencyWork(msgspec.Struct, frozen=True, kw_only=True):
    """A load of fixed rate whose messages carry the time at which they were sent.

    Args:
        name: what `--only` selects it by.
        title: what the table calls it.
        rate: messages per second.
        size: octets of the body.
        floods: publisher and consumer pairs that run at full speed beside it, each on a queue of its own.
    """

    name: str
    title: str
    rate: float
    size: int = 100
    floods: int = 0


def _one_by_one(work: Work, size: int) -> Work:
    """One delivery at a time while a few others wait in the queue: a batch of 16 whenever fewer than 32 do."""
    return msgspec.structs.replace(work, ack_every=1, prefetch=1, under_way=32, batch_octets=16 * size)


def _in_size(label: str, size: int) -> list[Work]:
    """No-ack and acknowledged, one publisher and one consumer."""
    noack = Work(name=f"noack-{size}", title=f"{label}, no-ack, 1→1", size=size)
    title = f"{label}, ack 100, prefetch 300, 1→1"
    return [noack, Work(name=f"ack-{size}", title=title, size=size, ack_every=100, prefetch=300)]


def _acknowledged(work: Work) -> Work:
    """The same work with an ack for a hundred."""
    name, title = f"{work.name}-ack", f"{work.title}, ack 100"
    return msgspec.structs.replace(work, name=name, title=title, ack_every=100, prefetch=300)


def _differing(works: Iterable[Work]) -> list[Work]:
    """The same works with heads that differ in every message."""
    return [msgspec.structs.replace(work, heads="differ") for work in works]


_TOPIC = Work(
    name="topic-16",
    title="200 B, topic, 16 keys in turn, 16 queues",
    size=200,
    shape="topic",
    width=16,
    under_way=UNDER_WAY_MESSAGES // 16,
)
_FANOUT = Work(name="fanout-4", title="200 B, fanout 1→4, 16 keys in turn", size=200, shape="fanout", width=4)
FLOWS: list[Work] = _differing(
    [
        *_in_size("200 B", 200),
        _TOPIC,
        _acknowledged(_TOPIC),
        _FANOUT,
        _acknowledged(_FANOUT),
        *_in_size("64 KiB", 65536),
        _one_by_one(Work(name="prefetch-1", title="200 B, prefetch 1, ack each, 1→1", size=200), 410),
        _one_by_one(Work(name="prefetch-1-8", title="200 B, prefetch 1, ack each, 8→8", size=200, width=8), 410),
    ]
)
"""What `amqp.py` measures unless asked otherwise: 200 octets, and heads that differ in every message."""

SAME_HEADS: list[Work] = [
    *_in_size("100 B", 100),
    *_in_size("1 KiB", 1024),
    *_in_size("64 KiB", 65536),
    Work(name="noack-other-channel", title="100 B, no-ack, 1→1, other channel number", consumer_channel=2),
    _one_by_one(Work(name="prefetch-1", title="100 B, prefetch 1, ack each, 1→1"), 170),
    _one_by_one(Work(name="prefetch-1-8", title="100 B, prefetch 1, ack each, 8→8", width=8), 170),
    Work(name="fanout", title="100 B, fanout 1→4", shape="fanout", width=4),
    Work(name="fanout-1024", title="1 KiB, fanout 1→4", shape="fanout", width=4, size=1024),
    Work(name="topic", title="100 B, topic, 4 queues, 20 other bindings", shape="topic", width=4, other_bindings=20),
    Work(name="four", title="100 B, ack 100, prefetch 300, 4→4", width=4, ack_every=100, prefetch=300),
    Work(name="four-noack", title="100 B, no-ack, 4→4", width=4),
    Work(name="confirm-1", title="100 B, one confirm outstanding", confirms=True, under_way=1, durable=True),
    Work(
        name="durable-100",
        title="100 B, durable, confirms, ack 100",
        durable=True,
        confirm_select=True,
        ack_every=100,
        prefetch=300,
    ),
]


def _durable() -> list[Work]:
    """Persistent messages in durable queues, confirmed and acknowledged; three sizes, one publisher and eight."""
    works = []
    for label, size in (("100 B", 100), ("1 KiB", 1024), ("64 KiB", 65536)):
        for width in (1, 8):
            works.append(
                Work(
                    name=f"durable-{size}-{width}",
                    title=f"{label}, durable, confirms, ack 100, {width}→{width}",
                    size=size,
                    width=width,
                    pipelined=True,
                    durable=True,
                    ack_every=100,
                    prefetch=300,
                )
            )
    return works


def _one_outstanding() -> list[Work]:
    """One unconfirmed message at a time, with a consumer that acknowledges each, or need not."""
    title = "200 B, durable, one confirm outstanding"
    work = Work(name="one-auto", title=f"{title}, auto-ack", size=200, confirms=True, under_way=1, durable=True)
    return [msgspec.structs.replace(work, name="one-ack", title=f"{title}, ack each", ack_every=1), work]


SAME_DURABLES = [*_durable(), *_one_outstanding()]
DURABLES = _differing(SAME_DURABLES)
"""What `durable.py` measures, with heads that differ or repeat."""
AHEAD_MESSAGES = 4_096
"""A publisher that runs ahead may be 256 MiB ahead: more than any broker of the table lets it, and less than memory."""
_AHEAD = Work(
    name="ahead",
    title="64 KiB, no-ack, the publisher runs ahead",
    size=65536,
    under_way=AHEAD_MESSAGES,
    stamped=True,
)
AHEADS: list[Work] = _differing([_AHEAD, _acknowledged(_AHEAD)])
"""Latencies in a backlog that the publisher makes."""
LATENCIES: list[LatencyWork] = [
    LatencyWork(name="latency", title="fixed 2,000/s, 100 B", rate=2000),
    LatencyWork(name="quiet", title="a quiet 500/s beside four floods", rate=500, floods=4),
]
CONFIRMS: list[ConfirmWork] = [
    ConfirmWork(name="confirm", title="publish to confirm, 1,000/s, 100 B", rate=1000),
    ConfirmWork(name="confirm-flood", title="publish to confirm, 1,000/s, beside a flood", rate=1000, floods=1),
]
