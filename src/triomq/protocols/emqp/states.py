"""The states of one conversation, as tables: ``{state: {event: next state}}``, one for each side of it.

Whether a command is in order is decided by this file alone. An event is "received" or "sent" and the command, with the
role behind INFORM. What is not in the table is not allowed: received, it is dropped and reported; sent, it is our own
mistake. What is stale is dropped without a word. The documentation draws these tables.

Nothing but silence and goodbyes ends a conversation: a ROUTER has no connections, and a peer that says nonsense is
heard again with its next message.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

State: TypeAlias = Literal[
    "guest",  # a broker's: the peer has not said INFORM, and need not: released clients and `emq-cli` never do
    "client",  # a broker's: a client that has said INFORM, hears HEARTBEATs and can subscribe
    "worker",
    "scheduler",
    "informing",  # a peer's: INFORM was sent and is not acknowledged
    "open",  # a peer's: the conversation goes on
    "leaving",  # this side has said KBAI; replies to jobs that are under way still go both ways
    "left",  # the other side has said it
    "closed",
]
StateTable: TypeAlias = Mapping[State, Mapping[str, State]]

Role: TypeAlias = Literal["client", "worker", "scheduler"]

_ASKS: Final = "REQUEST PUBLISH SCHEDULE UNSCHEDULE DISCONNECT STATUS ROUTER_SHOW_WORKERS ROUTER_SHOW_SCHEDULERS HELLO"
"""What any peer may ask a broker, and be answered."""

_ANSWERS: Final = "ACK REPLY ERROR"

_FOLLOWED: Final = "PROGRESS STATE"
"""What a client hears of its jobs beside their answers."""

_WORKED: Final = "REPLY PROGRESS RETURN"
"""What a worker says of jobs that it has."""


def _stay(state: State, *, received: str = "", sent: str = "") -> dict[str, State]:
    """Return commands that lead from a state to itself."""
    events = [f"received {name}" for name in received.split()] + [f"sent {name}" for name in sent.split()]
    return dict.fromkeys(events, state)


# The broker's side of the conversation with one peer

_INFORMS: Final[dict[str, State]] = {f"received INFORM {role}": role for role in get_args(Role)}
_LEFT: Final[dict[str, State]] = {"received KBAI": "left", "lost": "closed"}

BROKER: Final[StateTable] = {
    "guest": {
        **_stay("guest", received=_ASKS, sent=_ANSWERS),
        **_INFORMS,
        "sent KBAI": "leaving",
        "lost": "closed",
    },
    "client": {
        **_stay("client", received=f"{_ASKS} SUBSCRIBE UNSUBSCRIBE CANCEL PROGRESS STATE HEARTBEAT"),
        **_stay("client", sent=f"{_ANSWERS} {_FOLLOWED} PUBLISH HEARTBEAT DISCONNECT"),
        **_INFORMS,
        "sent KBAI": "leaving",
        **_LEFT,
    },
    "worker": {
        **_stay("worker", received=f"{_ASKS} {_WORKED} READY HEARTBEAT"),
        **_stay("worker", sent=f"{_ANSWERS} REQUEST CANCEL PROGRESS HEARTBEAT DISCONNECT"),
        **_INFORMS,
        "sent KBAI": "leaving",
        **_LEFT,
    },
    "scheduler": {
        **_stay("scheduler", received=f"{_ASKS} HEARTBEAT"),
        **_stay("scheduler", sent=f"{_ANSWERS} SCHEDULE UNSCHEDULE HEARTBEAT DISCONNECT"),
        **_INFORMS,
        "sent KBAI": "leaving",
        **_LEFT,
    },
    # "MUST allow any pending messages or jobs to complete"
    "leaving": {
        **_stay("leaving", received=f"{_WORKED} HEARTBEAT", sent=f"{_ANSWERS} {_FOLLOWED} CANCEL"),
        **_LEFT,
    },
    # "MUST stop sending any messages to the disconnecting component": but for what ends its jobs, or lets them go on
    "left": {
        **_stay("left", received=f"{_WORKED} HEARTBEAT KBAI", sent="CANCEL PROGRESS"),
        **_INFORMS,
        "lost": "closed",
    },
    "closed": {},
}

# The side of a peer, of each role


def _peer(*, received: str = "", heard: str = "", sent: str = "", late: str = "") -> StateTable:
    """Return the table of a role.

    Args:
        received: what it hears beside what all do, while the conversation is open.
        heard: what it hears at any time.
        sent: what it says, while the conversation is open.
        late: what it says at any time.
    """
    answers = f"ACK-of-a-command REPLY ERROR HEARTBEAT {heard}"
    goodbyes: dict[str, State] = {"sent KBAI": "leaving", **_LEFT}
    return {
        # After "unknown" there may be answers to what was asked before, and replies to be given.
        "informing": {
            **_stay("informing", received=f"{answers} DISCONNECT", sent=f"INFORM {late}"),
            "received ACK-of-INFORM": "open",
            "unanswered": "open",
            **goodbyes,
        },
        "open": {
            **_stay("open", received=f"{answers} DISCONNECT {received}", sent=f"{_ASKS} HEARTBEAT {sent} {late}"),
            "received ACK-of-INFORM": "open",  # of one that was repeated
            "unknown": "informing",
            **goodbyes,
        },
        # A REQUEST may have been on its way when KBAI was said.
        "leaving": {**_stay("leaving", received=f"{answers} {received}", sent=f"{late} HEARTBEAT"), **_LEFT},
        "left": {**_stay("left", received=f"{answers} KBAI", sent=late), "lost": "closed"},
        "closed": {},
    }


PEERS: Final[Mapping[Role, StateTable]] = {
    "client": _peer(received="PUBLISH", heard=_FOLLOWED, sent="SUBSCRIBE UNSUBSCRIBE CANCEL PROGRESS STATE"),
    "worker": _peer(received="REQUEST", heard="CANCEL PROGRESS", sent="READY", late=_WORKED),
    "scheduler": _peer(received="SCHEDULE UNSCHEDULE"),
}

Stale: TypeAlias = Mapping[State, frozenset[str]]

BROKER_STALE: Final[Stale] = {
    # ZeroMQ sends again what a peer had said before the broker was restarted, or had given it up; and a worker goes on
    # to speak of its jobs until it hears that this broker does not know it.
    "guest": frozenset(("received HEARTBEAT", "received READY", "received REPLY", "received KBAI")),
    "leaving": frozenset(("received READY",)),
    "left": frozenset(("received READY",)),
}
"""What a broker drops without a word."""

PEER_STALE: Final[Stale] = {
    "leaving": frozenset(("received ACK-of-INFORM", "received DISCONNECT")),
    "left": frozenset(("received ACK-of-INFORM", "received DISCONNECT", "received PUBLISH")),
}
"""What a peer drops without a word: what the broker had said before it heard of the goodbye."""
