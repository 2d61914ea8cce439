"""Supervised actors on Trio: typed messages, turns, restarts; a framework of its own, with no messaging in it."""

from triomq.actors.actor import Actor, InPlaceActor
from triomq.actors.backoff import Backoff
from triomq.actors.children import ChildSpec, RestartPolicy, Strategy
from triomq.actors.deadletters import DeadLetter, DeadLetters
from triomq.actors.events import DeadLettered, Event, EventSubscription, Exited, MailboxOverflowed, Restarted, Started
from triomq.actors.handlers import describe_handlers
from triomq.actors.in_place_ref import InPlaceRef
from triomq.actors.mailbox import Mailbox, MailboxStatistics, Overflow
from triomq.actors.messages import Down, Message, Ping, Request
from triomq.actors.ref import Ref, RefStatistics
from triomq.actors.registry import Registry
from triomq.actors.running import is_under_asyncio, require_trio, unwrap_group
from triomq.actors.status import State
from triomq.actors.supervisor import DynamicSupervisor, Supervisor
from triomq.actors.system import System, open_system
from triomq.actors.task_ref import TaskRef
from triomq.actors.tree import TreeNode
from triomq.actors.turn import BUDGET, Source, Turn

__all__ = [  # noqa: RUF022  # grouped for the reader
    # writing actors
    "Actor",
    "Down",
    "InPlaceActor",
    "Message",
    "Ping",
    "Request",
    # running them
    "InPlaceRef",
    "Ref",
    "System",
    "TaskRef",
    "BUDGET",
    "Source",
    "Turn",
    "is_under_asyncio",
    "open_system",
    "require_trio",
    "unwrap_group",
    # supervising them
    "Backoff",
    "ChildSpec",
    "DynamicSupervisor",
    "RestartPolicy",
    "Strategy",
    "Supervisor",
    # looking at them
    "DeadLetter",
    "DeadLetters",
    "RefStatistics",
    "Registry",
    "State",
    "TreeNode",
    "describe_handlers",
    # events
    "DeadLettered",
    "Event",
    "EventSubscription",
    "Exited",
    "MailboxOverflowed",
    "Restarted",
    "Started",
    # mailboxes
    "Mailbox",
    "MailboxStatistics",
    "Overflow",
]
