"""The states of one conversation, as tables: ``{state: {event: next state}}``, one for each side of it.

Whether a command is in order is decided by this file alone. An event is "received" or "sent" and the command, with the
role behind INFORM. What is not in the table is not allowed: received, it is dropped and reported; sent, it is our own
mistake. What is in ``STALE`` is dropped without a word. The documentation draws these tables.

Nothing but silence and goodbyes ends a conversation: a ROUTER has no connections, and a peer that says nonsense is
heard again with its next message.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

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

ASKS: Final = (
    *("REQUEST", "PUBLISH", "SCHEDULE", "UNSCHEDULE", "DISCONNECT"),
    *("STATUS", "ROUTER_SHOW_WORKERS", "ROUTER_SHOW_SCHEDULERS", "HELLO"),
)
"""What any peer may ask a broker."""

_INFORMS: Final[dict[str, State]] = {
    "received INFORM client": "client",
    "received INFORM worker": "worker",
    "received INFORM scheduler": "scheduler",
}


def _stay(state: State, *events: str) -> dict[str, State]:
    return dict.fromkeys(events, state)


def _broker(state: State, received: tuple[str, ...], sent: tuple[str, ...]) -> dict[str, State]:
    """Return the row of a peer that a broker hears."""
    heard = _stay(state, *(f"received {command}" for command in (*ASKS, *received)))
    said = _stay(state, *(f"sent {command}" for command in ("ACK", "REPLY", "ERROR", *sent)))
    return {**_INFORMS, **heard, **said, "sent KBAI": "leaving", "lost": "closed"}


_PEERS: Final[dict[str, State]] = {"received KBAI": "left"}

BROKER: Final[StateTable] = {
    "guest": _broker("guest", (), ()),
    "client": _broker("client", ("HEARTBEAT", "SUBSCRIBE", "UNSUBSCRIBE"), ("HEARTBEAT", "PUBLISH", "DISCONNECT"))
    | _PEERS,
    "worker": _broker("worker", ("HEARTBEAT", "READY", "REPLY"), ("HEARTBEAT", "REQUEST", "DISCONNECT")) | _PEERS,
    "scheduler": _broker("scheduler", ("HEARTBEAT",), ("HEARTBEAT", "SCHEDULE", "UNSCHEDULE", "DISCONNECT")) | _PEERS,
    "leaving": _stay("leaving", "received REPLY", "received HEARTBEAT", "sent ACK", "sent REPLY", "sent ERROR")
    | {"received KBAI": "left", "lost": "closed"},
    # "MUST stop sending any messages to the disconnecting component"
    "left": _stay("left", "received REPLY", "received HEARTBEAT", "received KBAI") | _INFORMS | {"lost": "closed"},
    "closed": {},
}

_ANSWERS: Final = ("ACK of a command", "REPLY", "ERROR", "HEARTBEAT")
_HEARD: Final = (*_ANSWERS, "REQUEST", "PUBLISH", "SCHEDULE", "UNSCHEDULE", "DISCONNECT")
_SAID: Final = (*ASKS, "HEARTBEAT", "READY", "REPLY", "SUBSCRIBE", "UNSUBSCRIBE")
_GOODBYES: Final[dict[str, State]] = {"received KBAI": "left", "sent KBAI": "leaving", "lost": "closed"}

PEER: Final[StateTable] = {
    # After "unknown" there may be answers to what was asked before, and replies to be given.
    "informing": _stay("informing", *(f"received {name}" for name in _ANSWERS), "sent INFORM", "sent REPLY")
    | {"received ACK of INFORM": "open", "unanswered": "open"}
    | _GOODBYES,
    "open": _stay("open", *(f"received {name}" for name in _HEARD), *(f"sent {name}" for name in _SAID))
    | {"received ACK of INFORM": "open", "unknown": "informing"}
    | _GOODBYES,
    # A REQUEST may have been on its way when KBAI was said.
    "leaving": _stay("leaving", *(f"received {name}" for name in _ANSWERS), "received REQUEST", "sent REPLY")
    | {"received KBAI": "left", "lost": "closed"},
    "left": _stay("left", *(f"received {name}" for name in _ANSWERS), "received KBAI", "sent REPLY")
    | {"lost": "closed"},
    "closed": {},
}

STALE: Final[Mapping[State, frozenset[str]]] = {
    # ZeroMQ sends again what a peer had said before the broker was restarted, or had given it up.
    "guest": frozenset(("received HEARTBEAT", "received READY", "received KBAI")),
    "leaving": frozenset(("received READY", "received DISCONNECT", "received PUBLISH", "received ACK of INFORM")),
    "left": frozenset(("received READY", "received PUBLISH", "received ACK of INFORM")),
}
"""What is dropped without a word."""
