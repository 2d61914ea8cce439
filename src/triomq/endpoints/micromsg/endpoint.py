"""The MicroMsg2 endpoint: listens, and makes a connection for each client."""

import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import Endpoint
from triomq.endpoints.base.login import offered_mechanisms
from triomq.endpoints.base.stream_listener import StreamListener
from triomq.endpoints.micromsg.config import MicroMsg
from triomq.endpoints.micromsg.connection import MicroMsgServerConnection
from triomq.endpoints.micromsg.kept import KeptSubscriptions
from triomq.endpoints.micromsg.login import EXTERNAL, MECHANISMS, SASL, SECRET_MECHANISMS
from triomq.protocols.micromsg import SERVER_OPTIONAL, HandshakeExtension, MicroMsgServer, Settings
from triomq.transports import Transport

_SUBPROTOCOL = "micromsg"
"""What clients over WebSocket may ask for."""


class MicroMsgEndpoint(Endpoint):
    """The actor that listens for MicroMsg2.

    Args:
        config: Where and how.
        context: What the broker lends.
    """

    def __init__(self, config: MicroMsg, context: BrokerContext) -> None:
        self.listener = StreamListener(
            self.make_client,
            config.host,
            config.port,
            path=config.path,
            tls=config.tls,
            websocket=config.websocket,
            subprotocols=(_SUBPROTOCOL,),
            probes=True,
        )
        super().__init__(context, self.listener)
        self.config = config
        self.kept = KeptSubscriptions(self.timers, config.kept_seconds, config.most_kept)

    async def on_start(self) -> None:
        """Listen; end what an incarnation before has kept, if it crashed."""
        name = f"kept by {self.ref.path}"
        before = self.context.lasting.get(name)
        if isinstance(before, KeptSubscriptions):
            before.close()
        self.context.lasting[name] = self.kept
        await super().on_start()

    async def on_stop(self) -> None:
        """End what is kept, and with it its sessions."""
        self.kept.close()
        await super().on_stop()

    def make_client(self, transport: Transport) -> MicroMsgServerConnection:
        """Return the actor that serves a connection over a transport."""
        config = self.config
        mechanisms = offered_mechanisms(
            transport, MECHANISMS, SECRET_MECHANISMS, tls=config.tls, plain_to_all=config.allow_plain_insecure
        )
        login = HandshakeExtension(SASL)
        must_log_in = not (config.user or EXTERNAL in mechanisms)
        largest = max(256, self.context.unfinished.largest(config.max_message_size))
        settings = Settings(
            identity=config.product,
            required=(login,) if must_log_in else (),
            optional=SERVER_OPTIONAL if must_log_in else (*SERVER_OPTIONAL, login),
            window=config.window,
            max_payload=min(config.max_frame, largest),
            max_message=largest,
            mechanisms=tuple(mechanisms),
            heartbeat=config.heartbeat,
        )
        engine = MicroMsgServer(now=trio.current_time(), settings=settings)
        return MicroMsgServerConnection(transport, engine, self.context, self, mechanisms)
