"""The actor of one peer: announces what there is here, and handles what comes into our pipes there.

The class restms (61501): each sink, queue and binding of a domain that was made here is announced to the peer, as feed,
pipe and join, again whenever it comes back. What the peer itself had made here is not announced to it: so nothing goes
round among brokers. What its clients publish into our pipes comes back and goes into our queues.

    Directory ── Changed ──► Synchroniser ──► ResourceOutbox ──► Peering.announce ──► peer
    queues ◄── Intake ◄────── delivered ◄─────────────────────── Peering ◄─────────── peer

``run`` is the one task: connect, announce until there is nothing left, send a mark, wait for a change. The peer is up
to date when it has answered the last mark. Everything that comes from it is handled in turns of this actor. The outbox
is passed in by the actor's specification, so that what the peer knows outlives a crash of the actor.
"""

import logging
import ssl
from socket import gethostname

import trio

from triomq.clients import AMQPUrl, Peering, Reconnect, open_peering
from triomq.core import Changed, Directory
from triomq.endpoints.federation.intake import Intake
from triomq.endpoints.federation.outbox import ResourceOutbox
from triomq.endpoints.federation.synchronise import PeerActor, PeerStatistics, Synchronise
from triomq.errors import TriomqError
from triomq.protocols.amqp import DeliverRun, Method

_log = logging.getLogger("triomq.synchronise")

_BATCH = 256
"""Methods that are sent before other tasks run: encoding them takes a millisecond."""


class Synchroniser(PeerActor):
    """The actor for one peer; made by ``peer_spec``, has a task that connects and announces.

    Args:
        config: The peer.
        directory: The domain whose resources are announced.
        outbox: What is still to be announced.
        url: Where it is.
        context: How to speak TLS with it.
        instance: What tells this broker and domain from others of the same origin.
    """

    def __init__(
        self,
        config: Synchronise,
        directory: Directory,
        outbox: ResourceOutbox,
        url: AMQPUrl,
        context: ssl.SSLContext | None,
        instance: str,
    ) -> None:
        self._config = config
        self._directory = directory
        self._outbox = outbox
        self._url = url
        self._context = context
        self._instance = instance
        self._origin = config.origin or gethostname()
        self._reconnect = Reconnect(max_delay=config.retry, delay=min(0.1, config.retry))
        self._intake: Intake | None = None
        self._wake = trio.Event()
        self._marked = False  # whether a mark was sent behind everything
        self._is_up_to_date = False
        self._waiting = trio.Event()  # set when it is, and when this incarnation ends
        self._failures = 0  # since the peer was up to date
        self._trouble = ""

    def on_start(self) -> None:
        """Observe the domain."""
        self._directory.observers.add(self.ref)

    def on_stop(self) -> None:
        """Stop to observe the domain."""
        self._directory.observers.remove(self.ref)

    async def wait_announced(self) -> bool:
        """Wait until the peer knows everything; return whether it does, since this incarnation may end first."""
        while not self._is_up_to_date and not self._waiting.is_set():
            await self._waiting.wait()
        return self._is_up_to_date

    def statistics(self) -> PeerStatistics:
        """Return a snapshot."""
        outbox = self._outbox.statistics()
        return PeerStatistics(
            is_connected=self._intake is not None,
            is_up_to_date=self._is_up_to_date,
            announced=outbox.announced,
            sent=outbox.sent,
            waiting=outbox.waiting,
            replays=outbox.replays,
            received=0 if self._intake is None else self._intake.received,
        )

    # What there is to tell

    def changed(self, message: Changed) -> None:
        """Handle a change of the domain."""
        if self._outbox.changed(message, self._directory):
            self._is_up_to_date = self._marked = False
            self._wake.set()

    async def run(self) -> None:
        """Connect, again and again."""
        try:
            await self._run()
        finally:
            self._waiting.set()

    async def _run(self) -> None:
        while True:
            try:
                async with open_peering(
                    self._url,
                    self,
                    ssl_context=self._context,
                    origin=self._origin,
                    instance=self._instance,
                    prefetch=self._config.prefetch,
                ) as peering:
                    await self._serve(peering)
            except TriomqError as error:
                self._log_change(logging.WARNING, "peer is away", reason=str(error))
            finally:
                self._forget()
            await trio.sleep(self._reconnect.seconds(self._failures))
            self._failures += 1

    async def _serve(self, peering: Peering) -> None:
        """Announce everything to the peer, then each change, as long as it is connected."""
        if not (peering.knows_resources or self._config.force):
            self._log_change(logging.WARNING, "peer cannot be told of resources", reason="it does not announce restms")
            raise await peering.wait_ended()
        self._log_change(logging.INFO, "peer is told of resources", origin=f"{self._url.user}@{self._origin}")
        self._intake = Intake(peering, self._directory, self._outbox.knows, self)
        self._outbox.begin(self._directory)
        while True:
            peering.check()
            self._wake = trio.Event()
            methods = self._outbox.take(_BATCH)
            if methods:
                self._marked = False
                peering.announce(methods)
                await peering.wait_room()
                await trio.lowlevel.checkpoint()
                continue
            if not self._marked:
                self._marked = True
                peering.send_mark(self._outbox.mark())
            await self._wake.wait()

    def _forget(self) -> None:
        """End with a connection; the next one begins anew."""
        self._outbox.end()
        if self._intake is not None:
            self._intake.forget()
        self._intake = None
        self._marked = self._is_up_to_date = False

    # What the peer sends; called where it is read

    def delivered(self, run: DeliverRun) -> None:
        """Handle messages from its pipes."""
        if self._intake is not None:
            self.ref.run_in_turn(self._take, self._intake, run)

    def _take(self, intake: Intake, run: DeliverRun) -> None:
        intake.take(run)
        self.ref.touch()

    def after_batch(self) -> None:
        """Ack what was taken in this turn."""
        if self._intake is not None:
            self._intake.settle()

    def mark_reached(self, mark: int) -> None:
        """Handle a mark: the peer knows everything before it."""
        self._is_up_to_date = self._outbox.mark_reached(mark) and self._marked
        if self._is_up_to_date:
            self._failures = 0
            self._waiting.set()
            self._waiting = trio.Event()

    def cancelled(self, tag: str) -> None:
        """Announce a pipe again that delivers nothing more: its queue has crashed at the peer, or was deleted."""
        self._outbox.announce_again(tag[2:], self._directory)
        self._wake.set()

    def resource_announced(self, method: Method) -> None:
        """Pass over a resource of the peer's: it announces them on a connection of its own, as a client."""
        self._log_change(logging.INFO, "resource passed over", method=type(method).__name__)

    def ended(self) -> None:
        """Wake the task, which finds out why the connection has ended."""
        self._wake.set()

    def _log_change(self, level: int, event: str, **fields: object) -> None:
        """Log an event, unless it is the same as the last one."""
        text = f"{event} {fields}"
        if text != self._trouble:
            _log.log(level, event, extra={"fields": {"peer": self._url.place, **fields}})
        self._trouble = text
