"""The class direct of 6/DMP, number 61500: what asks for a lease, with which a second connection is opened.

A server that knows the class has a field ``direct`` in its server-properties, an integer: 1 asks clients to use
direct connections where they can, 0 allows it. One that does not know it closes the connection when it is asked, so a
client looks at the field first. The methods travel on any open channel, as those of the original implementation do,
although its definition calls the connection their handler.

direct.lost is ours. On a feed nothing but messages can stand, so the channel that has leased it is where a client can
be informed that it reads too slowly; a client that wants to know has a capability for that.
"""

from triomq.protocols.amqp.methods import LongLong, Method, Row, ShortString

DIRECT_PROPERTY = "direct"
"""The field of a server's server-properties."""

LOST_CAPABILITY = "direct.lost"
"""The capability, among the client-properties, of a client that wants to know of lost messages."""


class DirectPut(Method, frozen=True, gc=False):
    """Ask for a connection to a sink, which is an exchange."""

    sink: ShortString


class DirectPutOk(Method, frozen=True, gc=False):
    """Grant it, by a lease that the client shows on the new connection."""

    lease: ShortString


class DirectGet(Method, frozen=True, gc=False):
    """Ask for the one connection to a feed, which is a queue that the client has for itself."""

    feed: ShortString


class DirectGetOk(Method, frozen=True, gc=False):
    """Grant it, by a lease that the client shows on the new connection."""

    lease: ShortString


class DirectLost(Method, frozen=True, gc=False):
    """Report how many messages for a feed were lost since the last report: its client did not read them in time."""

    feed: ShortString
    messages: LongLong


DIRECT_METHODS: tuple[Row, ...] = (
    Row(DirectPut, 61500, 10, "client", "direct.put", ("direct.put-ok",)),
    Row(DirectPutOk, 61500, 11, "server", "direct.put-ok"),
    Row(DirectGet, 61500, 20, "client", "direct.get", ("direct.get-ok",)),
    Row(DirectGetOk, 61500, 21, "server", "direct.get-ok"),
    Row(DirectLost, 61500, 30, "server", "direct.lost"),
)
