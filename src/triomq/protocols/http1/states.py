"""The states of a connection, as tables: ``{state: {event: next state}}``.

What may be done when is decided by this file alone. An event is "received" or "sent" and what it is about. What is not
in the table is not allowed: received, it ends the connection; sent, it is our own mistake. The documentation draws
these tables.

A server looks at one request at a time. Only in the states of ``READS`` it reads on in what has come; what a client
sends behind its request waits until that is answered.
"""

from typing import Final, Literal, TypeAlias

State: TypeAlias = Literal[
    "idle",  # a head is due, or a part of it is there; a client may have asked nothing
    "judging",  # the head was seen, the endpoint wants the body or answers without it
    "reading",  # the body comes
    "answering",  # all of the request was seen, the answer is due
    "streaming",  # a part of the answer was sent
    "discarding",  # the answer was sent, the rest of a body that was not wanted comes
    "closed",
]
StateTable: TypeAlias = dict[State, dict[str, State]]

_ENDS: Final[dict[str, State]] = {"found fault": "closed", "lost": "closed"}
_ANSWERS: Final[dict[str, State]] = {"sent answer": "idle", "sent last answer": "closed", "sent head": "streaming"}

SERVER: Final[StateTable] = {
    "idle": {"received head": "judging", "received end": "closed", **_ENDS},
    # The client's end is no end of its request: half-closed sockets get their answer.
    "judging": {"sent call for body": "reading", "sent early answer": "discarding", **_ANSWERS, **_ENDS},
    "reading": {
        "received whole body": "answering",
        "sent early answer": "discarding",
        "received end": "closed",
        **_ANSWERS,
        **_ENDS,
    },
    "answering": {**_ANSWERS, **_ENDS},
    "streaming": {"sent whole answer": "idle", "sent last answer": "closed", **_ENDS},
    "discarding": {"received whole body": "idle", "received end": "closed", **_ENDS},
    "closed": {},
}

READS: Final[frozenset[State]] = frozenset(("idle", "reading", "discarding"))

# Requests may be sent in all states but the last, and are answered in their order.
CLIENT: Final[StateTable] = {
    "idle": {"received head": "reading", "received end": "closed", **_ENDS},
    "reading": {"received whole body": "idle", "received end": "closed", **_ENDS},
    "closed": {},
}
