"""Direct connections, as both sides see them: the lessee of a sink or a feed, and the connection with the lease.

Neither side knows the protocol of the other. On one side is a client's principal connection, today one that speaks
AMQP, on the other a connection that carries messages one way and nothing else, today one that speaks DMP::

    principal connection                     direct connection
    --------------------                     -----------------
    grants a lease with a Grant              finds the Grant behind the lease that it is shown
    DirectFeeds.attach: consumers get    <-  takes a feed
      their messages over there
    DirectFeeds.detach: and here again   <-  ends
    ReturnMessage, MessagesLost          <-  tells what became of messages, since it cannot tell its client

``BrokerContext.direct`` is the protocol that direct connections speak.
"""

from triomq.endpoints.direct.flow import FeedPace, SinkFlow
from triomq.endpoints.direct.leases import (
    DirectFeed,
    DirectFeedClosed,
    DirectFeeds,
    DirectSubscription,
    Grant,
    Lessee,
    MessagesLost,
    ReturnMessage,
    Undelivered,
    add_direct,
    attach_direct,
    check_sink,
    detach_direct,
    direct_feed,
    remove_direct,
)
from triomq.endpoints.direct.protocol import LARGEST_MESSAGE, DirectLimits, DirectProtocol

__all__ = [
    "LARGEST_MESSAGE",
    "DirectFeed",
    "DirectFeedClosed",
    "DirectFeeds",
    "DirectLimits",
    "DirectProtocol",
    "DirectSubscription",
    "FeedPace",
    "Grant",
    "Lessee",
    "MessagesLost",
    "ReturnMessage",
    "SinkFlow",
    "Undelivered",
    "add_direct",
    "attach_direct",
    "check_sink",
    "detach_direct",
    "direct_feed",
    "remove_direct",
]
