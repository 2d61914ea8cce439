"""The class restms, number 61501: how a RestMS server, or another broker, announces its resources to a broker.

Its methods have no replies: a peer that connects again may announce everything once more, and it is no error if it is
there already, or gone already. Errors are logged by the receiver, and not sent back. The methods travel on any open
channel, either way.
"""

from triomq.protocols.amqp.methods import Method, Row, ShortString

RESTMS_CAPABILITY = "restms"
"""The capability, among the server-properties, of a server that knows the class; OpenAMQ's does not announce it."""

ORIGIN_PROPERTY = "origin"
"""The client property that names where a client's resources come from."""

INSTANCE_PROPERTY = "origin_instance"
"""The client property with a random number, which tells it from another broker of the same origin."""


class RestMSPipeCreate(Method, frozen=True, gc=False):
    """Create a pipe, which is a queue."""

    pipe_type: ShortString
    pipe_name: ShortString


class RestMSPipeDelete(Method, frozen=True, gc=False):
    """Delete a pipe."""

    pipe_name: ShortString


class RestMSFeedCreate(Method, frozen=True, gc=False):
    """Create a feed, which is an exchange or, of some types, a queue."""

    feed_type: ShortString
    feed_name: ShortString


class RestMSFeedDelete(Method, frozen=True, gc=False):
    """Delete a feed."""

    feed_name: ShortString


class RestMSJoinCreate(Method, frozen=True, gc=False):
    """Create a join, which is a binding: messages of a feed with an address go to a pipe."""

    pipe_name: ShortString
    feed_name: ShortString
    address: ShortString


class RestMSJoinDelete(Method, frozen=True, gc=False):
    """Delete a join."""

    pipe_name: ShortString
    feed_name: ShortString
    address: ShortString


RESTMS_METHODS: tuple[Row, ...] = (
    Row(RestMSPipeCreate, 61501, 10, "both", "restms.pipe-create"),
    Row(RestMSPipeDelete, 61501, 20, "both", "restms.pipe-delete"),
    Row(RestMSFeedCreate, 61501, 30, "both", "restms.feed-create"),
    Row(RestMSFeedDelete, 61501, 40, "both", "restms.feed-delete"),
    Row(RestMSJoinCreate, 61501, 50, "both", "restms.join-create"),
    Row(RestMSJoinDelete, 61501, 60, "both", "restms.join-delete"),
)
