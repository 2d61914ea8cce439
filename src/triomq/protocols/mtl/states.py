"""The states of a control session and of a data flow, as tables: ``{state: {event: next state}}``, one for each side.

Whether a command is in order is decided by this file alone; the documentation draws these tables.

In a *control session* an event is a command and the code of its answer, such as "Open 201", since it is the answer
that decides. "refused" stands for all codes from 400 on that have no row of their own, and changes nothing where it has
none. A command that has no row at all in a state is answered by the engine itself (``CONTROL_REFUSALS``).

In a *data flow* an event is "received" or "sent" and a command, or what becomes of the lease. What is not in the table
is refused with a Response where it has a sequence, and otherwise dropped (``control`` and ``data flow error handling``
of 11/MTL); sent, it is our own mistake.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

ControlState: TypeAlias = Literal[
    "unknown",  # no Connection.Open was accepted
    "guest",  # Connection.Open was, and who the client is has to be shown
    "challenged",  # SASL goes on
    "ready",  # the client may choose a profile
    "working",  # it has chosen one
]
ControlTable: TypeAlias = Mapping[ControlState, Mapping[str, ControlState]]

_OPENS: Final[dict[str, ControlState]] = {"Open 201": "ready", "Open 401": "guest", "Open refused": "unknown"}
_LOGS_IN: Final[dict[str, ControlState]] = {
    "Authorize 201": "ready",
    "Authorize 402": "challenged",
    "Authorize 401": "guest",
    "Close 200": "unknown",
}

CONTROL_SERVER: Final[ControlTable] = {
    "unknown": _OPENS,
    "guest": {**_OPENS, **_LOGS_IN},
    "challenged": {**_OPENS, **_LOGS_IN, "Authorize refused": "guest"},
    # A lease outlives the profile, and so can be released without one.
    "ready": {**_OPENS, **_LOGS_IN, "Profile 200": "working", "Release 200": "ready", "expired": "guest"},
    "working": {
        **_OPENS,
        **_LOGS_IN,
        "Profile 200": "working",
        "Reader 202": "working",
        "Writer 202": "working",
        "Release 200": "working",
        "command 200": "working",  # one of the profile's classes
        "expired": "guest",
    },
}
"""A server's: what a client is to it."""

CONTROL_REFUSALS: Final[Mapping[ControlState, int]] = {
    "unknown": 401,  # "MAY issue a 401 response at any time": so a client finds out that the server was restarted
    "guest": 401,
    "challenged": 401,
    "ready": 400,  # "The client MUST have already selected a profile"
}
"""With which code a command is answered that has no place in a state."""

# "The server MAY issue a 401 response at any time", to whatever was asked: it may have been restarted.
_AT_ANY_TIME: Final[dict[str, ControlState]] = {"any 401": "unknown"}

CONTROL_CLIENT: Final[ControlTable] = {
    "unknown": _OPENS,
    "guest": {**_OPENS, **_LOGS_IN, **_AT_ANY_TIME},
    "challenged": {**_OPENS, **_LOGS_IN, **_AT_ANY_TIME, "Authorize refused": "guest"},
    "ready": {**_OPENS, **_LOGS_IN, **_AT_ANY_TIME, "Profile 200": "working", "Release 200": "ready"},
    "working": {
        **_OPENS,
        **_LOGS_IN,
        **_AT_ANY_TIME,
        "Profile 200": "working",
        "Reader 202": "working",
        "Writer 202": "working",
        "Release 200": "working",
        "command 200": "working",
    },
}
"""A client's: what it is to its server."""

FlowState: TypeAlias = Literal[
    "unleased",  # no lease was claimed, or it was taken back
    "claiming",  # a client's: Lease was sent and is not answered
    "reading",  # content goes from server to client
    "writing",  # content goes from client to server
    "closed",
]
FlowTable: TypeAlias = Mapping[FlowState, Mapping[str, FlowState]]


def _stay(state: FlowState, *, received: str = "", sent: str = "") -> dict[str, FlowState]:
    """Return commands that lead from a state to itself."""
    events = [f"received {name}" for name in received.split()] + [f"sent {name}" for name in sent.split()]
    return dict.fromkeys(events, state)


_SERVER_ENDS: Final[dict[str, FlowState]] = {"revoked": "unleased", "lost": "closed"}

DATA_SERVER: Final[FlowTable] = {
    "unleased": {
        **_stay("unleased", received="Lease", sent="Response"),
        "granted reader": "reading",
        "granted writer": "writing",
        "lost": "closed",
    },
    "reading": {
        **_stay("reading", received="Lease Summon Dismiss Confirm Reject Ping Pong", sent="Response Content Ping Pong"),
        **_SERVER_ENDS,
    },
    "writing": {
        **_stay("writing", received="Lease Content Ping Pong", sent="Response Confirm Reject Ping Pong"),
        **_SERVER_ENDS,
    },
    "closed": {},
}
"""A server's side of the flow with one peer."""

_LEASE_LOST: Final[dict[str, FlowState]] = {"refused": "unleased", "lost": "closed"}

DATA_CLIENT: Final[FlowTable] = {
    "unleased": {"sent Lease": "claiming", "lost": "closed"},
    # What follows Lease need not wait for its answer.
    "claiming": {
        **_stay("claiming", received="Response Ping Pong", sent="Summon Dismiss Content Ping Pong"),
        "granted reader": "reading",
        "granted writer": "writing",
        **_LEASE_LOST,
    },
    "reading": {
        **_stay(
            "reading",
            received="Response Content Ping Pong",
            sent="Lease Summon Dismiss Confirm Reject Ping Pong",
        ),
        **_LEASE_LOST,
    },
    "writing": {
        **_stay("writing", received="Response Confirm Reject Ping Pong", sent="Lease Content Ping Pong"),
        **_LEASE_LOST,
    },
    "closed": {},
}
"""A client's side of its flow."""
