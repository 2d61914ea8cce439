"""The states of a connection, as tables: ``{state: {event: next state}}``.

Whether a message is in order is decided by this file alone. An event is "received" or "sent" and the message's name.
What is not in the table is not allowed: received, it ends the connection; sent, it is our own mistake. The
documentation draws these tables.

In the states of ``HOLDING`` it is our own side's turn: what the peer has sent ahead waits until that has been taken.
"""

from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["server", "client"]

State: TypeAlias = Literal[
    "greeting",  # GREETING is due
    "choosing",  # a client's: it has seen the mechanisms and is to choose
    "login",  # LOGIN is due
    "judging",  # LOGIN or RESPONSE was sent, and the server is to judge it
    "challenged",  # CHALLENGE was sent, and the client is to answer
    "open",  # requests and answers
    "closed",
]
StateTable: TypeAlias = dict[State, dict[str, State]]

_REQUESTS: Final = "PING OFFSETS FETCH ACK STAGE COMMIT ABORT LIST LEASE"
_ANSWERS: Final = "DONE BOUNDS RECORDS STREAMS LEASED ERROR"


def _stay_open(*, received: str, sent: str) -> dict[str, State]:
    names = [f"received {name}" for name in received.split()] + [f"sent {name}" for name in sent.split()]
    return dict.fromkeys(names, "open")


# A client does not say that it goes: it ends its stream.
_ENDS: Final[dict[str, State]] = {"received end": "closed", "found fault": "closed", "lost": "closed"}
_SERVER_ENDS: Final[dict[str, State]] = _ENDS | {"sent CLOSE": "closed"}
_CLIENT_ENDS: Final[dict[str, State]] = _ENDS | {"received CLOSE": "closed"}

SERVER: Final[StateTable] = {
    "greeting": {"received GREETING": "login", **_SERVER_ENDS},
    "login": {"received LOGIN": "judging", **_SERVER_ENDS},
    "judging": {"sent CHALLENGE": "challenged", "sent WELCOME": "open", **_SERVER_ENDS},
    "challenged": {"received RESPONSE": "judging", **_SERVER_ENDS},
    "open": {**_stay_open(received=_REQUESTS, sent=_ANSWERS), **_SERVER_ENDS},
    "closed": {},
}

CLIENT: Final[StateTable] = {
    "greeting": {"received GREETING": "choosing", **_CLIENT_ENDS},
    "choosing": {"sent LOGIN": "judging", **_CLIENT_ENDS},
    "judging": {"received CHALLENGE": "challenged", "received WELCOME": "open", **_CLIENT_ENDS},
    "challenged": {"sent RESPONSE": "judging", **_CLIENT_ENDS},
    "open": {**_stay_open(received=_ANSWERS, sent=_REQUESTS), **_CLIENT_ENDS},
    "closed": {},
}

HOLDING: Final[dict[Role, frozenset[State]]] = {
    "server": frozenset(("judging",)),
    "client": frozenset(("choosing", "challenged")),
}
"""Where an engine reads nothing until its own side has acted."""
