"""Waiting until nothing happens by itself any more, in any of several domains."""

from collections.abc import Callable, Sequence

import trio

from triomq.actors import InPlaceActor
from triomq.app.consumers import Consumers
from triomq.app.domain_handle import DomainHandle
from triomq.errors import ActorStopped


class _Bystander(InPlaceActor):
    """Lives no longer than the domains before it in the tree, so that who waits for them hears of their end."""

    __slots__ = ("_on_end",)

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def on_stop(self) -> None:
        """Tell."""
        self._on_end()


async def wait_idle(domains: Sequence[DomainHandle], consumers: Consumers) -> None:
    """Wait until all of the domains are idle at the same time; ``Broker.wait_idle`` says what that means."""
    from trio.testing import wait_all_tasks_blocked  # it loads much that only tests need

    while True:
        for domain in domains:
            await _wait_at_work(domain)
        await wait_all_tasks_blocked()  # what clients have sent is read now, and consumers have gone on
        if any(domain.domain_ref.state != "running" for domain in domains):
            continue
        busy = [domain for domain in domains if not domain.directory.idle]
        if not busy:
            return
        await _wait_for_change(busy, consumers)


async def _wait_at_work(domain: DomainHandle) -> None:
    """Wait for what is being restarted: messages may be waiting for it."""
    await domain.domain_ref.wait_running()
    for queue in list(domain.directory.queues.values()):
        if queue.ref.state != "running":
            try:
                await queue.ref.wait_running()
            except ActorStopped:
                pass  # deleted meanwhile, or given up: nothing happens there


async def _wait_for_change(busy: Sequence[DomainHandle], consumers: Consumers) -> None:
    """Wait until one of the domains becomes idle, or ends."""
    changed = trio.Event()
    bystander = await consumers.start(lambda: _Bystander(changed.set))
    try:
        for domain in busy:
            domain.directory.when_idle(changed.set)
        await changed.wait()
    finally:
        consumers.stop(bystander)


def describe_busy(domains: Sequence[DomainHandle]) -> str:
    """Say which queues are not idle and why, for whoever has waited too long."""
    queues = [queue for domain in domains for queue in domain.directory.queues.values() if not queue.idle]
    numbers = [(queue.name, queue.statistics()) for queue in queues]
    return ", ".join(
        f"queue {name!r} has {count.unsettled} unsettled, {count.delayed} delayed and {count.ready} ready messages "
        f"for {count.feeds} feeds"
        for name, count in numbers
    )
