"""Queues that are declared because a job, or a worker, names them."""

from typing import Final

import trio

from triomq.actors import Ref
from triomq.core import DeclareQueue, Directory, QueueOptions, Restarting, Session
from triomq.protocols.emqp import BrokerEngine

DEFAULT_QUEUE: Final = "default"
"""Where jobs go for a queue that nobody has declared."""


JOB_PRIORITIES: Final = 9
"""The highest priority of a job."""

PLAIN_QUEUE: Final = QueueOptions()
"""Of a queue that a released program names: as a client of another wire would declare it."""

JOB_QUEUE: Final = QueueOptions(max_priority=JOB_PRIORITIES)
"""Of a queue that a peer with our extensions names: its jobs may have priorities."""


def options_of(engine: BrokerEngine) -> QueueOptions:
    """Return the options of a queue that is declared for a peer."""
    return JOB_QUEUE if engine.is_extended else PLAIN_QUEUE


def queue_for(name: str, directory: Directory, domain: Ref, options: QueueOptions = PLAIN_QUEUE) -> str:
    """Return the queue that a job goes to: the one that it names, or the default one, which is there from now on.

    Args:
        name: What the job names; empty for the default queue.
        directory: The domain's.
        domain: The domain.
        options: Of the default queue, if it is declared now.

    Raises:
        Restarting: The default queue is to be declared, and the domain cannot do that just now.
    """
    if name in directory.queues:
        return name
    if DEFAULT_QUEUE not in directory.queues:
        session = Session(domain, directory)
        session.attach()
        try:
            domain.ask_nowait(DeclareQueue(DEFAULT_QUEUE, options, session))
        except trio.WouldBlock:
            raise Restarting(domain) from None
        finally:
            session.detach()
    return DEFAULT_QUEUE
