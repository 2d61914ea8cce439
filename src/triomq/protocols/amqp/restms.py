"""The class restms, number 61501: how a RestMS server, or another broker, tells a broker of its resources.

Its methods have no answers: who (re)connects may say all that it has once more, and none of it is an error if it is
there already, or gone already. Errors are noted by whoever receives, and nobody is told. The methods travel on any open
channel, either way.
"""

from triomq.protocols.amqp.methods import Method, Row, ShortString

RESTMS_CAPABILITY = "restms"
"""What a server that knows the class says in the capabilities of its server-properties; OpenAMQ's does not."""

ORIGIN_PROPERTY = "origin"
"""What a client says in its client-properties of where its resources come from."""

INSTANCE_PROPERTY = "origin_instance"
"""What it says beside that, by chance, to be told from another one of the same origin."""


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
