"""One connection to one peer, from the handshake to the last octet: engine, transport and three small tasks.

    transport ──▶ received ──▶ engine ──▶ events ──▶ the owner's ``took``, ``acked`` …    reads: in the transport's task
    tasks ──▶ the owner's messages ──▶ _run_writer, soon ──▶ engine ──▶ transport         writes
    _run_timers: the engine's next deadline                                               timers

Rules:

- What comes is handled where it comes, in the task that reads, a chunk at a time and without waiting.
- What is sent and what is accepted gathers until the tasks that are running have all had their turn, and leaves in one
  write: the owner's ``fill`` then gives the engine as many messages as the window has room for.
- Reading stops when subscribers have not taken 4 MiB, unless an ack or an answer is waited for: that may stand behind
  them on the same socket.
- A link ends once, with ``error``. It never reconnects: its connection makes another one.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

import trio

from triomq.clients.amqp.pending_reply import PendingReply, fresh
from triomq.clients.micromsg.refusals import AGAIN, error_of
from triomq.clients.transport_link import BUFFERED_MOST, CLOSE_TIMEOUT, UNTAKEN_MOST, TransportLink
from triomq.errors import AccessRefused, Disconnected, Refused, RemoteProtocolError, TriomqError
from triomq.protocols.micromsg import (
    CommandAnswered,
    EndOfStream,
    ErrorReceived,
    ExtensionReceived,
    Failed,
    HandshakeCompleted,
    MessagesAcked,
    MicroMessageRun,
    MicroMsgClient,
    SASLAccepted,
    SASLChallenged,
    Settings,
    Silent,
)
from triomq.transports import Poller, Transport


class LinkOwner(Protocol):
    """The connection that a link belongs to; nothing of this waits."""

    @property
    def expects(self) -> bool:
        """Whether anybody waits for an ack."""

    def fill(self, link: "MicroMsgLink") -> None:
        """Give the engine what is to be sent, as far as it has room."""

    def took(self, link: "MicroMsgLink", run: MicroMessageRun) -> None:
        """Take messages."""

    def acked(self, count: int) -> None:
        """Count messages that the peer has, the oldest ones."""

    def told(self, link: "MicroMsgLink", answer: CommandAnswered) -> None:
        """Take a further answer to a command that was answered already."""

    def extended(self, event: ExtensionReceived) -> None:
        """Take a frame of an extension of the user's own."""


class MicroMsgLink(TransportLink):
    """Made by its connection for one peer; ends once, with ``error``.

    Args:
        transport: Connected, and ours from now on.
        poller: Who watches it, where it is a plain socket.
        settings: For the engine.
        place: Where the peer is, for texts.
        owner: What the messages are for.
    """

    def __init__(self, transport: Transport, poller: Poller, settings: Settings, place: str, owner: LinkOwner) -> None:
        self.engine = MicroMsgClient(now=trio.current_time(), settings=settings)
        super().__init__(transport, poller, self.engine)
        self.place = place
        self.opened: PendingReply[HandshakeCompleted] = PendingReply()
        self.may_return = True
        """Whether it makes sense to connect again after this end."""
        self.is_ready = False
        """Whether we are let in, and messages may be sent."""
        self.held = False
        """Whether nothing is to be sent, since the peer takes no bytes."""
        self._owner = owner
        self._accepted: list[int] = []
        self._login: PendingReply[SASLChallenged | SASLAccepted] | None = None
        self._answers: dict[int, PendingReply[CommandAnswered]] = {}
        self._untaken = 0
        self._is_closing = self._ends_when_drained = False

    @property
    def has_acks(self) -> bool:
        """Whether messages are acknowledged, in both directions."""
        return self.engine.window > 0

    # Tasks

    def _begin(self) -> None:
        self._transport.start(self)
        self._flush()

    def _close(self) -> None:
        self.end(Disconnected(f"the connection to {self.place} was closed by this program"))

    # Sending

    def accept(self, number: int) -> None:
        """Acknowledge a message, with all that is accepted in this turn."""
        self._accepted.append(number)
        self.write_later()

    def _write_all(self) -> None:
        self.write()

    @trio.lowlevel.enable_ki_protection
    def write(self) -> None:
        """Write what waits."""
        if self.error is not None:
            return
        if self._accepted:
            accepted, self._accepted = self._accepted, []
            self.engine.accept(0, accepted)
            self.engine.acknowledge_now()
        if self.is_ready and not self.held:
            self._owner.fill(self)
        self._flush()

    def _flush(self) -> None:
        """Hand all bytes to the transport, which never waits; nothing more is sent while it has not taken them."""
        unsent = self.engine.outbox.unsent
        pieces = self.engine.data_to_send()
        if pieces and not self._transport.send_nowait(pieces):
            self._untaken += unsent
            self.held = self._untaken > UNTAKEN_MOST
        self._keep_due()

    def drained(self) -> None:
        """Send again; called by the transport."""
        self._untaken = 0
        if self._ends_when_drained:
            self._close()
        elif self.held:
            self.held = False
            self.write()

    # Reading

    @trio.lowlevel.enable_ki_protection
    def received(self, data: bytes) -> None:
        """Read bytes; called by the transport."""
        if self._is_closing:  # what still comes nobody waits for
            if not data:
                self._close()
            return
        self.engine.receive_data(data)
        self._handle_events()

    def _handle_events(self) -> None:
        for event in self.engine.events():
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)
        if self.error is not None:
            self._flush()  # what the peer is told about it
            return
        self.write()
        if self.engine.outbox.finished:
            self.end(Disconnected(f"the connection to {self.place} has ended"))
        if self.buffered > BUFFERED_MOST and not self._paused and not self._expects:
            self.pause(paused=True)

    @property
    def _expects(self) -> bool:
        return bool(self._answers) or (self.has_acks and self._owner.expects)

    # Asking

    async def log_in(self, mechanism: str, response: bytes) -> SASLChallenged | SASLAccepted:
        """Begin to log in, and return what the broker says to that."""
        self.engine.start_login(mechanism, response)
        return await self._wait_login()

    async def respond(self, response: bytes) -> SASLChallenged | SASLAccepted:
        """Answer a challenge, and return what the broker says to that."""
        if self.error is not None:  # while the response was worked out
            raise fresh(self.error)
        self.engine.respond(response)
        return await self._wait_login()

    async def _wait_login(self) -> SASLChallenged | SASLAccepted:
        self._login = PendingReply()
        self._flush()
        return await self._login.wait()

    def get_ready(self) -> None:
        """Send messages from now on."""
        self.is_ready = True
        self.write_later()

    async def ask(self, number: int) -> None:
        """Send a command that the engine has numbered, and wait for its answer, where the peer answers commands.

        Raises:
            Refused: The broker refuses it.
            Disconnected: The connection was lost meanwhile.
        """
        self._flush()
        if not self.engine.speaks("x-reply"):
            return
        if self.error is not None:
            raise fresh(self.error)
        pending: PendingReply[CommandAnswered] = PendingReply()
        self._answers[number] = pending
        self.expecting()
        try:
            answer = await pending.wait()
        finally:
            self._answers.pop(number, None)
        if answer.code >= 300:
            raise error_of(answer.code, answer.text)

    # The end

    async def close(self, *, by_half: bool) -> None:
        """Write what is left, end the stream, and wait for the peer's end as long as it may take for that.

        Args:
            by_half: Whether a stream can be ended in one direction; over TLS it cannot, and nothing is waited for when
                all has left.
        """
        if self.error is not None:
            return
        self.write()
        self._is_closing = True
        self.engine.close()
        self._flush()
        self._transport.end_sending()
        if self._paused:
            self.pause(paused=False)  # what has come and is not read would make the system drop what we sent last
        self._ends_when_drained = not by_half
        self._transport.notify_drained()
        with trio.move_on_after(CLOSE_TIMEOUT):
            await self.ended.wait()

    def end(self, error: TriomqError, *, may_return: bool = True) -> None:
        """End, and fail everything that waits; only the first call counts."""
        if self.error is not None:
            return
        self.error = error
        self.may_return = may_return
        self.is_ready = False
        self.ended.set()
        if not self.opened.done:
            self.opened.fail(error)
        if self._login is not None and not self._login.done:
            self._login.fail(error)
        for pending in self._answers.values():
            if not pending.done:
                pending.fail(error)

    # What events do

    def _completed(self, event: HandshakeCompleted) -> None:
        self.opened.resolve(event)

    def _judged(self, event: SASLChallenged | SASLAccepted) -> None:
        if self._login is not None and not self._login.done:
            self._login.resolve(event)

    def _answered(self, event: CommandAnswered) -> None:
        pending = self._answers.get(event.number)
        if pending is not None and not pending.done:
            pending.resolve(event)
        else:
            self._owner.told(self, event)

    def _refused(self, event: ErrorReceived) -> None:
        if self.opened.done:
            text = event.text if event.code else f"the peer at {self.place} ends the connection: {event.text}"
            self.end(error_of(event.code, text), may_return=event.code in AGAIN)
        elif event.code in AGAIN and event.code:
            self.end(Disconnected(f"the peer at {self.place} does not let us in now: {event.code} {event.text}"))
        elif event.code:
            self.end(error_of(event.code, event.text), may_return=False)
        else:
            self.end(Refused(f"the peer at {self.place} does not let us in: {event.text}"), may_return=False)

    def _failed(self, event: Failed) -> None:
        self.end(self._failure(event), may_return=False)

    def _failure(self, event: Failed) -> TriomqError:
        if self.opened.done or event.code != 501:
            return RemoteProtocolError(f"{self.place} does not keep to MicroMsg2: {event.code} {event.text}")
        if "x-sasl" in event.text:
            return AccessRefused(
                f"the broker at {self.place} lets nobody in without a log-in; write micromsg://user:password@host:port"
            )
        return Refused(
            f"the peer at {self.place} requires what this client was not given: {event.text}; see extensions= of "
            "open_micromsg"
        )

    def _silent(self, event: Silent) -> None:
        self.end(Disconnected(f"the peer at {self.place} has fallen silent: its heartbeats have stopped"))

    def _hung_up(self, event: EndOfStream) -> None:
        if self.is_ready:
            text = f"the peer at {self.place} has closed the connection without a word"
        else:
            text = f"the peer at {self.place} hung up during the handshake without a word; see that it speaks MicroMsg2"
        self.end(Disconnected(text))


_Handler = Callable[[MicroMsgLink, Any], None]

_HANDLERS: Final[dict[type, _Handler]] = {
    MicroMessageRun: lambda link, event: link._owner.took(link, event),
    MessagesAcked: lambda link, event: link._owner.acked(event.count),
    HandshakeCompleted: MicroMsgLink._completed,
    SASLChallenged: MicroMsgLink._judged,
    SASLAccepted: MicroMsgLink._judged,
    CommandAnswered: MicroMsgLink._answered,
    ExtensionReceived: lambda link, event: link._owner.extended(event),
    ErrorReceived: MicroMsgLink._refused,
    Failed: MicroMsgLink._failed,
    Silent: MicroMsgLink._silent,
    EndOfStream: MicroMsgLink._hung_up,
}
