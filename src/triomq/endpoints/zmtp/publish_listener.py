"""What is published, for ZeroMQ's SUB sockets: to each the messages whose topic begins with what it has subscribed to.

    publish ──> TopicIndex ──> connections ── one write for each, of all that is published at a time

A subscription needs the right to read before anything of it is kept. A SUB that does not read misses messages, which
are counted, and holds up nobody.
"""

import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.listener import Listener
from triomq.endpoints.zmtp.acceptor import ZMTPAcceptor
from triomq.endpoints.zmtp.admission import Admission
from triomq.endpoints.zmtp.connection import ZMTPConnection
from triomq.endpoints.zmtp.topic_index import TopicIndex
from triomq.protocols.zmtp import Frames, KeyShown, LoginRequested, Opened
from triomq.transports import TLS, Address

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint

_UNREAD: Final = 1024 * 1024
"""Octets that a subscriber may leave unread before it misses messages."""


class PublishListener(Listener):
    """Accepts subscribers, and sends them what begins with what they want.

    Args:
        context: What the broker lends.
        host: An address, or several.
        port: A port, or 0 for one that is free.
        may_subscribe: Called with a peer's user; returns whether it may subscribe, before anything is kept.
        admission: How peers say who they are.
        tls: How to speak TLS; None is not at all.
    """

    def __init__(
        self,
        context: BrokerContext,
        host: str | Sequence[str],
        port: int,
        may_subscribe: Callable[[str], bool],
        admission: Admission,
        *,
        tls: TLS | None = None,
    ) -> None:
        self._may_subscribe = may_subscribe
        self._admission = admission
        self._stopping = False
        self.index: TopicIndex[ZMTPConnection] = TopicIndex()
        """The subscriptions of all peers."""
        self.missed = 0
        """Messages that subscribers have missed, since they did not read those before."""
        self._acceptor = ZMTPAcceptor(context, host, port, self, admission, "XPUB", tls=tls)

    @property
    def addresses(self) -> list[Address]:
        """Each address of the hosts with the port."""
        return self._acceptor.addresses

    @property
    def port(self) -> int:
        """The one that it is bound to, once it has started."""
        return self._acceptor.port

    async def start(self, endpoint: "Endpoint") -> None:
        """Listen, and send from now on."""
        await self._acceptor.start(endpoint)

    def publish(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """Send messages, each a topic and a text, to all that have subscribed to a beginning of their topic."""
        found: dict[ZMTPConnection, list[tuple[bytes, bytes]]] = {}
        for message in messages:
            for connection in self.index.find(message[0]):
                found.setdefault(connection, []).append(message)
        for connection, its in found.items():
            if connection.unsent > _UNREAD:
                self.missed += len(its)
            else:
                connection.send_all(its)

    # What connections tell

    def login_requested(self, connection: ZMTPConnection, event: LoginRequested) -> None:
        """Have a password judged."""
        self._acceptor.judge(connection, event)

    def key_shown(self, connection: ZMTPConnection, event: KeyShown) -> None:
        """Have a key judged."""
        self._acceptor.judge_key(connection, event)

    def opened(self, connection: ZMTPConnection, event: Opened) -> None:
        """Count a connection among those that are open."""
        self._acceptor.no_stranger(connection)
        connection.login = self._admission.login_of(connection.address, connection.user)
        if self._stopping:
            connection.end()

    def messages_received(self, connection: ZMTPConnection, messages: list[Frames]) -> None:
        """Ignore them; an engine of an XPUB reports none."""

    def topic_subscribed(self, connection: ZMTPConnection, topic: bytes) -> None:
        """Have a connection get what begins so, if its user may read that."""
        if self._may_subscribe(connection.login) and connection.engine.keep(topic):
            self.index.add(topic, connection)

    def topic_cancelled(self, connection: ZMTPConnection, topic: bytes) -> None:
        """Have it get that no more."""
        if connection.engine.drop(topic):
            self.index.remove(topic, connection)

    def blocked(self, connection: ZMTPConnection) -> None:
        """Ignore it: who does not read misses messages."""

    def drained(self, connection: ZMTPConnection) -> None:
        """Ignore it too."""

    def gone(self, connection: ZMTPConnection) -> None:
        """Forget a connection and its subscriptions."""
        self._acceptor.no_stranger(connection)
        for topic in connection.engine.topics:
            self.index.remove(topic, connection)

    def closed(self, connection: ZMTPConnection) -> None:
        """Forget it altogether."""
        self._acceptor.forget(connection)

    # The end

    def renew_certificates(self, context: ssl.SSLContext) -> None:
        """Show other certificates from now on."""
        self._acceptor.renew_certificates(context)

    @property
    def is_quiet(self) -> bool:
        """Whether all connections are closed, once it has stopped."""
        return self._acceptor.is_quiet

    def stop_accepting(self) -> None:
        """Let no peer in, and end all connections when they have got what waits."""
        self._stopping = True
        self._acceptor.stop_accepting()
        for connection in self._acceptor.connections:
            connection.end()

    def close(self) -> None:
        """Close everything at once."""
        self._stopping = True
        self._acceptor.close()
