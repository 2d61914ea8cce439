"""Waiting until nothing happens by itself any more, in any of several domains."""

from collections.abc import Callable, Sequence

import trio

from triomq.actors import InPlaceActor
from triomq.app.consumers import Consumers
from triomq.app.domain_handle import DomainHandle
from triomq.errors import ActorStopped


class _EndWatch(InPlaceActor):
    """An actor that calls a function when it stops: it comes after the domains in the tree, so it stops with them."""

    __slots__ = ("_on_end",)

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def on_stop(self) -> None:
        self._on_end()


async def wait_idle(domains: Sequence[DomainHandle], consumers: Consumers) -> None:
    """Wait until all of the domains are idle at the same time, as ``Broker.wait_idle`` defines it."""
    from trio.testing import wait_all_tasks_blocked  # it loads much that only tests need

    while True:
        for domain in domains:
            await _wait_running(domain)
        await wait_all_tasks_blocked()  # what clients have sent is read now, and consumers have gone on
        if any(domain.domain_ref.state != "running" for domain in domains):
            continue
        busy = [domain for domain in domains if not domain.directory.idle]
        if not busy:
            return
        await _wait_for_change(busy, consumers)


async def _wait_running(domain: DomainHandle) -> None:
    """Wait for the actors that are being restarted: messages may be waiting for them."""
    await domain.domain_ref.wait_running()
    for queue in list(domain.directory.queues.values()):
        if queue.ref.state != "running":
            try:
                await queue.ref.wait_running()
            except ActorStopped:
                pass  # deleted meanwhile, or stopped for good: nothing happens there


async def _wait_for_change(busy: Sequence[DomainHandle], consumers: Consumers) -> None:
    """Wait until one of the domains becomes idle, or ends."""
    changed = trio.Event()
    watch = await consumers.start(lambda: _EndWatch(changed.set))
    try:
        for domain in busy:
            domain.directory.when_idle(changed.set)
        await changed.wait()
    finally:
        consumers.stop(watch)


def describe_busy(domains: Sequence[DomainHandle]) -> str:
    """Return which queues are not idle, and why."""
    queues = [queue for domain in domains for queue in domain.directory.queues.values() if not queue.idle]
    numbers = [(queue.name, queue.statistics()) for queue in queues]
    return ", ".join(
        f"queue {name!r} has {count.unsettled} unsettled, {count.delayed} delayed and {count.ready} ready messages "
        f"for {count.feeds} feeds"
        for name, count in numbers
    )
