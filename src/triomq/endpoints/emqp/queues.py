"""Queues that are declared because a job, or a worker, names them."""

from typing import Final

import trio

from triomq.actors import Ref
from triomq.core import DeclareQueue, Directory, QueueOptions, Restarting, Session

DEFAULT_QUEUE: Final = "default"
"""Where jobs go for a queue that nobody has declared."""


def queue_for(name: str, directory: Directory, domain: Ref) -> str:
    """Return the queue that a job goes to: the one that it names, or the default one, which is there from now on.

    Args:
        name: What the job names; empty for the default queue.
        directory: The domain's.
        domain: The domain.

    Raises:
        Restarting: The default queue is to be declared, and the domain cannot do that just now.
    """
    if name in directory.queues:
        return name
    if DEFAULT_QUEUE not in directory.queues:
        session = Session(domain, directory)
        session.attach()
        try:
            domain.ask_nowait(DeclareQueue(DEFAULT_QUEUE, QueueOptions(), session))
        except trio.WouldBlock:
            raise Restarting(domain) from None
        finally:
            session.detach()
    return DEFAULT_QUEUE
