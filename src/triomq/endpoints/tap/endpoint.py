"""The tap endpoint: listens, and makes a connection for each client."""

import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import Endpoint
from triomq.endpoints.base.login import offered_mechanisms
from triomq.endpoints.base.stream_listener import StreamListener
from triomq.endpoints.tap.arrivals import Arrivals
from triomq.endpoints.tap.config import Tap
from triomq.endpoints.tap.connection import TapServerConnection
from triomq.endpoints.tap.login import MECHANISMS, SECRET_MECHANISMS
from triomq.protocols.tap import TapServerEngine
from triomq.transports import Transport


class TapEndpoint(Endpoint):
    """The actor that listens for tap.

    Args:
        config: Where and how.
        context: What the broker lends.
    """

    def __init__(self, config: Tap, context: BrokerContext) -> None:
        self.listener = StreamListener(
            self.make_client, config.host, config.port or 0, path=config.path, tls=config.tls, probes=True
        )
        super().__init__(context, self.listener)
        self._config = config
        self._arrivals = Arrivals()

    def make_client(self, transport: Transport) -> TapServerConnection:
        """Return the actor that serves a connection over a transport."""
        config = self._config
        mechanisms = offered_mechanisms(
            transport, MECHANISMS, SECRET_MECHANISMS, tls=config.tls, plain_to_all=config.allow_plain_insecure
        )
        settings = config.settings(tuple(mechanisms), self.context.unfinished.largest(config.max_frame))
        engine = TapServerEngine(now=trio.current_time(), settings=settings)
        return TapServerConnection(
            transport,
            engine,
            self.context,
            mechanisms=mechanisms,
            domain=config.domain,
            arrivals=self._arrivals,
            max_batch=config.max_batch,
        )
