"""The work items: what is published, to whom, and how it is acknowledged."""

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


def _sizes() -> list[Work]:
    """No-ack and acknowledged, one publisher and one consumer, in three sizes."""
    works = []
    for label, size in (("100 B", 100), ("1 KiB", 1024), ("64 KiB", 65536)):
        works.append(Work(name=f"noack-{size}", title=f"{label}, no-ack, 1→1", size=size))
        acked = f"{label}, ack 100, prefetch 300, 1→1"
        works.append(Work(name=f"ack-{size}", title=acked, size=size, ack_every=100, prefetch=300))
    return works


def _one_by_one(name: str, title: str, width: int) -> Work:
    """One delivery at a time while a few others wait in the queue: a batch of 16 whenever fewer than 32 do."""
    return Work(name=name, title=title, width=width, ack_every=1, prefetch=1, under_way=32, batch_octets=16 * 170)


FLOWS: list[Work] = [
    *_sizes(),
    Work(name="noack-other-channel", title="100 B, no-ack, 1→1, other channel number", consumer_channel=2),
    _one_by_one("prefetch-1", "prefetch 1, ack each, 1→1", 1),
    _one_by_one("prefetch-1-8", "prefetch 1, ack each, 8→8", 8),
    Work(name="fanout", title="100 B, fanout 1→4", shape="fanout", width=4),
    Work(name="fanout-1024", title="1 KiB, fanout 1→4", shape="fanout", width=4, size=1024),
    Work(name="topic", title="100 B, topic, 4 queues, 20 other bindings", shape="topic", width=4, other_bindings=20),
    Work(name="four", title="100 B, ack 100, prefetch 300, 4→4", width=4, ack_every=100, prefetch=300),
    Work(name="four-noack", title="100 B, no-ack, 4→4", width=4),
    Work(name="confirm-1", title="confirm each, one outstanding, durable", confirms=True, under_way=1, durable=True),
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


DURABLES = _durable()
LATENCIES: list[LatencyWork] = [
    LatencyWork(name="latency", title="fixed 2,000/s, 100 B", rate=2000),
    LatencyWork(name="quiet", title="a quiet 500/s beside four floods", rate=500, floods=4),
]
CONFIRMS: list[ConfirmWork] = [
    ConfirmWork(name="confirm", title="publish to confirm, 1,000/s, 100 B", rate=1000),
    ConfirmWork(name="confirm-flood", title="publish to confirm, 1,000/s, beside a flood", rate=1000, floods=1),
]
