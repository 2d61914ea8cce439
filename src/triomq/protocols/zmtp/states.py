"""The states of a connection, as tables: ``{state: {event: next state}}``, one for each role and mechanism.

Whether something is in order is decided by this file alone. An event is "received" or "sent" and the name of a command;
a greeting and messages have names too. What is not in the table ends the connection when it is received during the
handshake, is dropped when it is a command on an open connection (as libzmq does), and is our own mistake when it is
sent. The documentation draws these tables.

In the states of ``HOLDING`` it is our own side's turn: what the peer has sent ahead waits until that has been taken.
"""

from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["server", "client"]

Mechanism: TypeAlias = Literal["NULL", "PLAIN", "CURVE"]
"""How a peer says who it is: not at all (RFC 23), by name and password (RFC 24), or by a key (RFC 26)."""

State: TypeAlias = Literal[
    "signature",  # ten octets are due, by which very old peers can be told
    "greeting",  # the rest of the greeting is due: version and mechanism
    "identity",  # from a peer before ZMTP 3: a frame with its identity is due
    "hello",  # HELLO is due
    "judging",  # a name and a password have come, or a key, and the server is to judge them
    "welcome",  # a client's: WELCOME is due
    "initiate",  # INITIATE is due
    "ready",  # READY is due
    "open",  # messages and commands
    "closed",
]
StateTable: TypeAlias = dict[State, dict[str, State]]

_ENDS: Final[dict[str, State]] = {
    "received end": "closed",
    "received ERROR": "closed",
    "found fault": "closed",
    "lost": "closed",
}

_OPEN: Final[dict[str, State]] = {
    **dict.fromkeys(
        ("received message", "received PING", "received PONG", "received SUBSCRIBE", "received CANCEL"), "open"
    ),
    **dict.fromkeys(("sent message", "sent PING", "sent PONG", "sent SUBSCRIBE", "sent CANCEL"), "open"),
    **_ENDS,
}

_SIGNATURE: Final[dict[str, State]] = {"received signature": "greeting", **_ENDS}

SERVER: Final[dict[Mechanism, StateTable]] = {
    "NULL": {
        "signature": {**_SIGNATURE, "received no signature": "identity"},
        "greeting": {"received greeting": "ready", "received old greeting": "identity", **_ENDS},
        "ready": {"received READY": "open", **_ENDS},
        "identity": {"received identity": "open", **_ENDS},
        "open": _OPEN,
        "closed": {},
    },
    "PLAIN": {
        "signature": _SIGNATURE,
        "greeting": {"received greeting": "hello", **_ENDS},
        "hello": {"received HELLO": "judging", **_ENDS},
        "judging": {"sent WELCOME": "initiate", "sent ERROR": "closed", **_ENDS},
        "initiate": {"received INITIATE": "open", **_ENDS},
        "open": _OPEN,
        "closed": {},
    },
    "CURVE": {
        "signature": _SIGNATURE,
        "greeting": {"received greeting": "hello", **_ENDS},
        "hello": {"received HELLO": "initiate", **_ENDS},
        "initiate": {"received INITIATE": "judging", **_ENDS},
        "judging": {"sent READY": "open", "sent ERROR": "closed", **_ENDS},
        "open": _OPEN,
        "closed": {},
    },
}
"""READY goes out as soon as it may: behind the greeting with NULL, behind INITIATE with PLAIN. Peers before ZMTP 3 say
nothing of a mechanism, and are let in where their settings say so (``old_peers``)."""

CLIENT: Final[dict[Mechanism, StateTable]] = {
    "NULL": {
        "signature": _SIGNATURE,
        "greeting": {"received greeting": "ready", **_ENDS},
        "ready": {"received READY": "open", **_ENDS},
        "open": _OPEN,
        "closed": {},
    },
    "PLAIN": {
        "signature": _SIGNATURE,
        "greeting": {"received greeting": "welcome", **_ENDS},
        "welcome": {"received WELCOME": "ready", **_ENDS},
        "ready": {"received READY": "open", **_ENDS},
        "open": _OPEN,
        "closed": {},
    },
}
CLIENT["CURVE"] = CLIENT["PLAIN"]
"""A client's words have the same names with PLAIN and CURVE."""

TABLES: Final[dict[Role, dict[Mechanism, StateTable]]] = {"server": SERVER, "client": CLIENT}

HOLDING: Final[frozenset[State]] = frozenset(("judging",))
"""Where an engine reads nothing until its own side has acted."""

UNTIL_OPEN: Final[frozenset[State]] = frozenset(
    ("signature", "greeting", "identity", "hello", "welcome", "initiate", "ready")
)
"""Where it reads the handshake."""
