"""From a URL to a broker that has let us in."""

import ssl
from collections.abc import Mapping

import trio

from triomq.clients.amqp.dialing import dial
from triomq.clients.amqp.link import Link
from triomq.clients.amqp.settings import settings_for
from triomq.clients.url import AMQPUrl
from triomq.errors import Disconnected
from triomq.protocols import FieldValue
from triomq.protocols.amqp import Connected
from triomq.transports import Poller


async def connect(
    url: AMQPUrl,
    ssl_context: ssl.SSLContext | None,
    nursery: trio.Nursery,
    properties: Mapping[str, FieldValue] | None = None,
) -> tuple[Link, Connected]:
    """Connect and log in.

    Args:
        url: Where to, as whom, and how many seconds it may take.
        ssl_context: Whom to trust and who we are; None trusts what the system trusts.
        nursery: Where the connection runs, until it ends or this is cancelled.
        properties: What else to say of ourselves.

    Raises:
        Disconnected: Nobody listens there, or lets us in in time.
        TriomqError: The broker refuses us.
    """
    poller = Poller()
    with trio.move_on_after(url.timeout):
        try:
            transport = await dial(url, ssl_context, poller)
        except BaseException:
            poller.close()
            raise
        link = Link(transport, poller, settings_for(url, properties), url.place)
        nursery.start_soon(link.run)
        try:
            return link, await link.opened.wait()
        except trio.Cancelled:
            link.end(Disconnected("nobody waits for this connection any more"))
            raise
    raise Disconnected(
        f"the broker at {url.place} does not let us in within {url.timeout:g} s; see whether it is busy, or raise "
        "?timeout= in the URL"
    )
