"""A broker in a thread of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Unpack

from triomq.app.portal.arguments import BrokerArguments
from triomq.app.portal.portal import Portal
from triomq.app.start import open_broker
from triomq.endpoints import EndpointConfig
from triomq.portal import PortalThread, run_portal


class BrokerThread(PortalThread[Portal]):
    """A thread that runs a broker; ends after ``drain`` or ``cancel``.

    Args:
        endpoints: What to listen for.
        arguments: Those of ``open_broker``.
    """

    def __init__(self, *endpoints: EndpointConfig, **arguments: Unpack[BrokerArguments]) -> None:
        @asynccontextmanager
        async def open_portal() -> AsyncIterator[Portal]:
            async with open_broker(*endpoints, **arguments) as broker, run_portal(partial(Portal, broker)) as portal:
                yield portal

        super().__init__(open_portal, "the broker")
