"""The states of a direct connection, as tables: ``{state: {event: next state}}``.

Whether a word of the dialog is in order is decided by this file alone. An event is "received" or "sent" and what it is
about. What is not in the table is not allowed: received, it ends the connection; sent, it is our own mistake. The
documentation draws these tables.
"""

from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["server", "client"]
Target: TypeAlias = Literal["sink", "feed"]

State: TypeAlias = Literal[
    "waiting",  # for the protocol header, or for the answer to it
    "leasing",  # the lease is due, or the answer to it
    "judging",  # the lease was seen, the endpoint is to judge it
    "reading",  # messages come: a sink's server, a feed's client
    "writing",  # messages go: a feed's server, a sink's client
    "closed",
]
StateTable: TypeAlias = dict[State, dict[str, State]]

# No side closes in order: one that has no more to send ends its stream.
_ENDS: Final[dict[str, State]] = {"received end": "closed", "found fault": "closed", "lost": "closed"}
_SERVER_ENDS: Final[dict[str, State]] = _ENDS | {"sent refusal": "closed"}
_CLIENT_ENDS: Final[dict[str, State]] = _ENDS | {"received refusal": "closed"}

SERVER: Final[StateTable] = {
    "waiting": {"received protocol header": "leasing", **_SERVER_ENDS},
    "leasing": {"received lease": "judging", **_SERVER_ENDS},
    "judging": {"sent sink ready": "reading", "sent feed ready": "writing", **_SERVER_ENDS},
    "reading": _SERVER_ENDS,
    # Only sized messages can stand on a feed: no reason can be sent when it ends.
    "writing": _SERVER_ENDS,
    "closed": {},
}

CLIENT: Final[StateTable] = {
    "waiting": {"received greeting": "leasing", **_CLIENT_ENDS},
    "leasing": {"received sink ready": "writing", "received feed ready": "reading", **_CLIENT_ENDS},
    "reading": _ENDS,
    "writing": _CLIENT_ENDS,
    "closed": {},
}
