"""Accepts the connections of ZeroMQ's peers, and lets them in: who may come, how many, and what is logged of it.

    stream ──> at most so many that are not open ──> ZMTPConnection ── LoginRequested ──> check_password ──> open

Who has not said who it is costs an engine and 4 KiB at most. So that this is little for all of them together too, so
many may be there at a time, of one address and of all; a further one is closed at once, and ZeroMQ tries again by
itself. A wrong password is told by ERROR, after which libzmq's clients do not come again; whoever is not judged, since
there were too many wrong ones, is closed without a word, and comes again.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.login import check_password, check_password_nowait, may_try
from triomq.endpoints.base.stream_listener import StreamAcceptor
from triomq.endpoints.zmtp.admission import Admission
from triomq.endpoints.zmtp.connection import ConnectionOwner, ZMTPConnection
from triomq.errors import ConfigError
from triomq.protocols.zmtp import KeyShown, LoginRequested, SocketType, ZMTPServerEngine, encode_key, require_curve
from triomq.transports import TLS, Transport, hosts_in, is_loopback

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint

_log = logging.getLogger("triomq.endpoints")

MOST_STRANGERS: Final = 1024
"""Connections of a listener that are not open yet: 5 MiB, with all that each may have sent."""

MOST_STRANGERS_OF_ADDRESS: Final = 128
"""Those of one address, so that nobody keeps others out alone. A thousand workers that start at once are in after eight
tries, which libzmq makes within two seconds."""

HEARTBEAT: Final = 10.0
"""Seconds of silence within which a peer is asked by PING: what a laptop's sleep or a lost route leaves behind is then
gone after twenty, and ten thousand idle peers cost a thousand PINGs a second."""

_LOG_AFTER: Final = 60.0
"""Seconds between two lines in the log about connections that are too many."""


class ZMTPAcceptor(StreamAcceptor):
    """Made by the listener that its connections are for, which is their owner.

    Args:
        context: What the broker lends.
        host: An address, or ``*`` for all of IPv4; or several.
        port: A port, or 0 for one that is free.
        owner: Who does what peers want; asked for log-ins by way of this.
        admission: How peers say who they are.
        socket_type: What our side is to messages.
        path: Path of a Unix socket to listen on instead.
        tls: How to speak TLS; None is not at all.
    """

    def __init__(
        self,
        context: BrokerContext,
        host: str | Sequence[str],
        port: int,
        owner: ConnectionOwner,
        admission: Admission,
        socket_type: SocketType,
        *,
        path: str = "",
        tls: TLS | None = None,
    ) -> None:
        self._named_hosts = hosts_in(host)
        hosts = ["0.0.0.0" if each == "*" else each for each in self._named_hosts]
        super().__init__(hosts, port, path=path, tls=tls, probes=True)
        self._broker = context
        self._owner = owner
        self._admission = admission
        self._engine_settings = admission.settings(socket_type, HEARTBEAT)
        self._connections: dict[ZMTPConnection, None] = {}
        self._strangers: Counter[str] = Counter()  # connections that are not open yet, by address
        self._refused = 0
        self._logged = -inf
        self._stopping = False

    async def start(self, endpoint: "Endpoint") -> None:
        """Listen, unless strangers would be let in without a word."""
        exposed = next((host for host in self._named_hosts if not is_loopback(host)), None)
        if not self._admission.asks and not self._path and exposed is not None:
            raise ConfigError(
                f"host {exposed!r} is open to other machines, where peers have to say who they are; choose "
                "PLAIN or CURVE, or listen on 127.0.0.1"
            )
        if self._engine_settings.mechanism == "CURVE":
            require_curve()
        await super().start(endpoint)

    @property
    def port(self) -> int:
        """The port that it listens on; the configured one before it has started."""
        return next((address[1] for address in self.addresses if isinstance(address, tuple)), self._port)

    # Connections

    def connect(self, transport: Transport) -> ZMTPConnection:
        """Begin with a connection, or close it if there are too many that are not open."""
        engine = ZMTPServerEngine(now=trio.current_time(), settings=self._engine_settings)
        connection = ZMTPConnection(transport, engine, self._endpoint, self._owner)
        address = connection.address
        if self._strangers[address] >= MOST_STRANGERS_OF_ADDRESS or self._strangers.total() >= MOST_STRANGERS:
            connection.is_stranger = False
            self._refuse(connection)
            transport.close()
            return connection
        self._strangers[address] += 1
        self._connections[connection] = None
        connection.start()
        return connection

    def _refuse(self, connection: ZMTPConnection) -> None:
        self._refused += 1
        now = trio.current_time()
        if now - self._logged >= _LOG_AFTER:
            connection.note(
                logging.WARNING, "connections refused", reason="too many are not open yet", refused=self._refused
            )
            self._logged, self._refused = now, 0

    def no_stranger(self, connection: ZMTPConnection) -> None:
        """Count a connection no more among those that are not open: it is, or it has gone."""
        if not connection.is_stranger:
            return
        connection.is_stranger = False
        address = connection.address
        self._strangers[address] -= 1
        if not self._strangers[address]:
            del self._strangers[address]

    def forget(self, connection: ZMTPConnection) -> None:
        """Forget a connection that is closed."""
        self._connections.pop(connection, None)
        if self._stopping and not self._connections:
            self._endpoint.check_empty()

    # Who may come

    def judge(self, connection: ZMTPConnection, event: LoginRequested) -> None:
        """Let a client in whose password is right."""
        if self._stopping:
            connection.engine.close()
            return
        heard = may_try(self._broker, connection.peer, event.user)
        known = check_password_nowait(self._broker, connection.peer, event.user, event.password)
        if known is None:
            self._endpoint.start_task(self._work_out, connection, event)
        else:
            self._answer(connection, event.user, known=known, heard=heard)

    def judge_key(self, connection: ZMTPConnection, event: KeyShown) -> None:
        """Let a client in that owns the key of a user."""
        user = self._broker.users.owner_of(encode_key(event.key))
        if user is None:
            connection.note(logging.WARNING, "login refused", mechanism="CURVE")
        self._answer(connection, user or "", known=user is not None, heard=True)

    async def _work_out(self, connection: ZMTPConnection, event: LoginRequested) -> None:
        known = await check_password(self._broker, connection.peer, event.user, event.password)
        if not connection.is_over:  # it may have gone, or was cut
            heard = known or may_try(self._broker, connection.peer, event.user)
            self._answer(connection, event.user, known=known, heard=heard)
            connection.work_off()

    def _answer(self, connection: ZMTPConnection, user: str, *, known: bool, heard: bool) -> None:
        if known and not self._stopping:
            connection.user = user
            connection.engine.accept()
        elif heard and not known:
            connection.engine.refuse()
        else:
            connection.engine.close()

    # The end

    @property
    def is_quiet(self) -> bool:
        """Whether no connection is open any more."""
        return not self._connections

    def stop_accepting(self) -> None:
        """Let nobody in, not even those that are about to come."""
        super().stop_accepting()
        self._stopping = True
        for connection in self.connections:
            if connection.is_stranger:
                connection.cut()

    @property
    def connections(self) -> "list[ZMTPConnection]":
        """Those that are not closed."""
        return list(self._connections)

    def close(self) -> None:
        """Close everything at once, behind what was sent."""
        self._stopping = True
        for connection in self.connections:
            connection.cut()
        super().close()
