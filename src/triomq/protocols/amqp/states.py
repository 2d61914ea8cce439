"""The states of a connection and of a channel, as tables: ``{state: {event: next state}}``.

Everything that decides whether a method of the connection or channel class is in order stands in this file. An event is
"received" or "sent" and the method's name. What is not in the table is not allowed: received, it ends the connection;
sent, it is our own mistake. The documentation draws these tables.
"""

from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["server", "client"]

# The names are those that RabbitMQ's texts use, where it has the state.
ConnectionState: TypeAlias = Literal[
    "waiting",  # for the protocol header, or for connection.start
    "starting",  # start is sent, start-ok is due
    "authenticating",  # the endpoint is to judge a response, or the server is
    "securing",  # secure is sent, secure-ok is due
    "tuning",  # tune is sent, tune-ok is due
    "opening",  # open is due, or open-ok
    "admitting",  # open was seen, the endpoint is to judge it
    "running",
    "ending",  # the client's close was seen; our close-ok is due, behind the answers to what came before
    "closing",  # our close is sent, close-ok is due
    "closed",
]
ChannelPhase: TypeAlias = Literal[
    "opening",  # open was sent, open-ok is due
    "open",
    "closing",  # our close is sent; everything but close-ok is dropped
    "ending",  # the peer's close was seen; our close-ok is due
    "crossed",  # both have closed and the peer's close is answered; its answer to ours is due
    "closed",
]
StateTable: TypeAlias = dict[str, dict[str, str]]

# Either side may give up at any time between the protocol header and the end (section 2.2.4).
_ENDS: Final = {"received connection.close": "ending", "sent connection.close": "closing"}
_CLIENT_ENDS: Final = {"received connection.close": "closed", "sent connection.close": "closing"}
_LAST: Final = {
    # Closes may cross: each side answers the other's and waits for its own answer.
    "closing": {"received connection.close": "closing", "received connection.close-ok": "closed"},
    "closed": {},
}

SERVER: StateTable = {
    "waiting": {"received protocol header": "starting"},
    "starting": {"received connection.start-ok": "authenticating"} | _ENDS,
    "authenticating": {"sent connection.secure": "securing", "sent connection.tune": "tuning"} | _ENDS,
    "securing": {"received connection.secure-ok": "authenticating"} | _ENDS,
    "tuning": {"received connection.tune-ok": "opening"} | _ENDS,
    "opening": {"received connection.open": "admitting"} | _ENDS,
    "admitting": {"sent connection.open-ok": "running"} | _ENDS,
    "running": {
        "sent connection.blocked": "running",
        "sent connection.unblocked": "running",
        "received connection.update-secret": "running",
        "sent connection.update-secret-ok": "running",
    }
    | _ENDS,
    # What came before the close is answered before it; a refusal may be a close of our own.
    "ending": {
        "sent connection.blocked": "ending",
        "sent connection.unblocked": "ending",
        "sent connection.update-secret-ok": "ending",
        "sent connection.close-ok": "closed",
        "sent connection.close": "closing",
    },
    **_LAST,
}

# Nothing that a client could still send would be read, so it answers a close at once.
CLIENT: StateTable = {
    "waiting": {"received connection.start": "starting"},
    "starting": {"sent connection.start-ok": "authenticating"} | _CLIENT_ENDS,
    "authenticating": {"received connection.secure": "securing", "received connection.tune": "tuning"} | _CLIENT_ENDS,
    "securing": {"sent connection.secure-ok": "authenticating"} | _CLIENT_ENDS,
    "tuning": {"sent connection.tune-ok": "opening"} | _CLIENT_ENDS,
    "opening": {"sent connection.open": "opening", "received connection.open-ok": "running"} | _CLIENT_ENDS,
    "running": {
        "received connection.blocked": "running",
        "received connection.unblocked": "running",
        "sent connection.update-secret": "running",
        "received connection.update-secret-ok": "running",
    }
    | _CLIENT_ENDS,
    **_LAST,
}

# The same for both roles: the method table has which side sends what. Every close of ours is answered sooner or
# later, that of a channel which had the number before, too; such a close-ok changes nothing.
CHANNEL: StateTable = {
    "closed": {"received channel.open": "opening", "sent channel.open": "opening"},
    "opening": {
        "sent channel.open-ok": "open",
        "received channel.open-ok": "open",
        "received channel.close": "ending",
        "sent channel.close": "closing",
    },
    "open": {"received channel.close": "ending", "sent channel.close": "closing"},
    "closing": {"received channel.close": "crossed", "received channel.close-ok": "closed"},
    # Open and close may come in one piece; each is answered, in order. What came between them may be refused by a
    # close of our own: then the channel is not closed but crossed, until the peer has answered that.
    "ending": {
        "sent channel.open-ok": "ending",
        "sent channel.close": "ending",
        "sent channel.close-ok": "closed",
    },
    # Who has closed may open again, whatever is still on the way.
    "crossed": {
        "received channel.close": "crossed",
        "received channel.close-ok": "closed",
        "received channel.open": "opening",
    },
}
