"""The states of a connection, as tables: ``{state: {event: next state}}``.

Whether a frame is in order is decided by this file, but for what an extension must have been agreed for. An event is
"received" or "sent" and what it is about; ACK, CHALLENGE and the like are EXTENSION frames. What is not in the table
is not allowed: received, it ends the connection by ERROR; sent, it is our own mistake. The documentation draws these
tables.
"""

from typing import Final, Literal, TypeAlias

State: TypeAlias = Literal[
    "hello",  # the other side's first handshake is due
    "choosing",  # a server's: the client's second handshake is due
    "login",  # `x-sasl` was agreed, and the client is to begin
    "judging",  # the client has said who it is, and the server is to judge it
    "challenged",  # the server wants to hear more
    "open",  # messages, commands, and frames of extensions
    "closed",
]
StateTable: TypeAlias = dict[State, dict[str, State]]


def _stay_open(*, received: str, sent: str) -> dict[str, State]:
    names = [f"received {name}" for name in received.split()] + [f"sent {name}" for name in sent.split()]
    return dict.fromkeys(names, "open")


# No side closes in order: one that has no more to send ends its stream.
_ENDS: Final[dict[str, State]] = {
    "received ERROR": "closed",
    "sent ERROR": "closed",
    "received end": "closed",
    "found fault": "closed",  # in what is no conversation of ours, or was not over in time
    "lost": "closed",
}
_FRAMES: Final = "MESSAGE ACK EXTENSION HEARTBEAT"


def _beats(state: State) -> dict[str, State]:
    return {"received HEARTBEAT": state, "sent HEARTBEAT": state}


SERVER: Final[StateTable] = {
    "hello": {"received HANDSHAKE": "choosing", **_ENDS},
    "choosing": {"received CHOICE": "open", "received CHOICE with x-sasl": "login", **_ENDS},
    "login": {"received START": "judging", **_beats("login"), **_ENDS},
    "judging": {"sent CHALLENGE": "challenged", "sent OUTCOME": "open", **_beats("judging"), **_ENDS},
    "challenged": {"received RESPONSE": "judging", **_beats("challenged"), **_ENDS},
    "open": {**_stay_open(received=f"{_FRAMES} COMMAND", sent=f"{_FRAMES} REPLY"), **_ENDS},
    "closed": {},
}

CLIENT: Final[StateTable] = {
    "hello": {"received HANDSHAKE": "open", "received HANDSHAKE with x-sasl": "login", **_ENDS},
    "login": {"sent START": "judging", **_beats("login"), **_ENDS},
    "judging": {"received CHALLENGE": "challenged", "received OUTCOME": "open", **_beats("judging"), **_ENDS},
    "challenged": {"sent RESPONSE": "judging", **_beats("challenged"), **_ENDS},
    "open": {**_stay_open(received=f"{_FRAMES} REPLY", sent=f"{_FRAMES} COMMAND"), **_ENDS},
    "closed": {},
}
