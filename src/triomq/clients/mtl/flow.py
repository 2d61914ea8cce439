"""A data flow that goes on: one lease after the other, if need be, for as long as a writer or a reader lasts.

    run ──▶ ask for a lease, with the one that we had ──▶ connect, claim ──▶ _begin ──▶ lost ──┐
     ▲                                                                                         │
     └──────────────────────────── wait a moment, longer each time ◀───────────────────────────┘

    socket ──▶ _receive ──▶ engine ──▶ the subclass's ``_take_event``
    the subclass's ``_prepare`` ──▶ engine ──▶ flush ──▶ _outgoing ──▶ _send ──▶ socket

Rules:

- A flow is lost with its connection, by silence, or when the broker answers 403: then it knows nothing of the lease.
  Each new one has a socket and an engine of its own, so that nothing of the last one comes between.
- A broker of ours gives the same lease back that is asked for, with all that it knows of it. So a writer's contents
  that are sent again are told from new ones, and none is there twice; after a restart of the broker the lease is a new
  one, and some may be.
- What is given to the flow goes out at the end of the turn, or when so much waits that it is worth a call.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from triomq.clients.amqp.pending_reply import PendingReply
from triomq.clients.mtl.control import ControlFlow
from triomq.clients.mtl.refusals import refusal_of
from triomq.errors import Disconnected, LimitExceeded, LocalProtocolError, TriomqError
from triomq.process import refuse_in_forks
from triomq.protocols.mtl import (
    ConfirmModel,
    FlowDirection,
    FlowSilent,
    Frames,
    MTLDataClient,
    ResponseReceived,
)

if TYPE_CHECKING:
    from triomq.clients.dealer import Dealer

MOST_OUTGOING: Final = 1000
"""Messages that wait for the socket before no more are made, and who publishes waits."""

_CLOSE: Final = 2.0
"""Seconds that a flow gets to end in order, also when its block fails or is cancelled."""


class ClientFlow(ABC):
    """One data flow; made by a connection for a writer or a reader, which are its subclasses.

    Args:
        control: Where leases come from.
        resources: What is written or read; none for all.
        confirm: Whether contents are confirmed.
        prefetch: How many contents may be unconfirmed, of a reader.
    """

    direction: FlowDirection

    def __init__(
        self, control: ControlFlow, resources: Sequence[str], confirm: ConfirmModel, prefetch: int = 0
    ) -> None:
        refuse_in_forks(self, "the connection of a client")
        self.resources = tuple(resources)
        self.confirms: ConfirmModel = confirm
        self.sessions = 0
        self._control = control
        self._url = control.url
        self._policy = control.policy
        self._prefetch = prefetch
        self._token = ""
        self._engine: MTLDataClient | None = None
        self._socket: Dealer | None = None
        self._next_sequence = 1
        self._error: TriomqError | None = None
        self._lost_at: float | None = None  # when it was lost, while it is
        self._responses: dict[int, PendingReply[int]] = {}
        self._outgoing: deque[Frames] = deque()
        self._has_outgoing = trio.Event()
        self._flush_due = False
        self._changed = trio.lowlevel.ParkingLot()
        """Where tasks wait for room, for a connection, or for an end."""
        self._session = trio.CancelScope()
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    # Life

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Run until it is closed; raises what is wrong at the first time, as ``ControlFlow.lease`` does."""
        try:
            with self._scope:
                await self._run(task_status)
        finally:
            self._ended.set()

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        failures = 0
        while True:
            began = trio.current_time()
            try:
                await self._live(task_status)
                reason = Disconnected(f"the data flow to {self._url.address()} was lost")
            except Disconnected as error:
                reason = error
            except LimitExceeded as error:  # such as 503 of a broker at which all come back at once
                if not self.sessions:
                    raise
                reason = Disconnected(str(error))
            except TriomqError as error:
                if not self.sessions:
                    raise
                self.fail(error)
                return
            if not self.sessions:
                raise reason
            if self._lost_at is None:
                self._lost_at = trio.current_time()
                self._control.log(logging.WARNING, "data flow lost", direction=self.direction, reason=reason)
            failures = 0 if trio.current_time() - began > self._policy.max_delay else failures
            if self._policy.attempts is not None and failures >= self._policy.attempts:
                self.fail(reason)
                return
            await trio.sleep(self._policy.seconds(failures) if failures else 0)
            failures += 1

    async def _live(self, task_status: trio.TaskStatus[None]) -> None:
        """Go through one lease, until the flow is lost."""
        leased = await self._control.lease(self.direction, self.resources, self.confirms, self._prefetch, self._token)
        self._token = leased.lease
        socket = self._socket = self._control.connect(leased.port, leased.endpoint)
        engine = MTLDataClient(
            self.direction,
            confirm=self.confirms,
            now=trio.current_time(),
            settings=self._url.settings(),
            next_sequence=self._next_sequence,
        )
        failure: TriomqError | None = None
        try:
            with trio.fail_after(self._url.timeout):
                await self._claim(socket, engine)
            self._engine = engine
            async with trio.open_nursery() as nursery:
                self._session = nursery.cancel_scope
                nursery.start_soon(self._receive, socket, engine)
                nursery.start_soon(self._send, socket)
                nursery.start_soon(self._keep_time, engine)
                try:
                    await self._begin(engine)
                except TriomqError as error:
                    failure = error
                    nursery.cancel_scope.cancel()
                else:
                    self._started(task_status)
        except trio.TooSlowError:
            raise Disconnected(f"the data flow to {self._url.address()} does not open in time") from None
        except trio.BrokenResourceError:
            raise Disconnected(f"the data flow to {self._url.address()} was lost at once") from None
        finally:
            self._end(engine)
            socket.close()
        if failure is not None:
            raise failure

    def _started(self, task_status: trio.TaskStatus[None]) -> None:
        self.sessions += 1
        if self._lost_at is not None:
            seconds, self._lost_at = round(trio.current_time() - self._lost_at, 3), None
            self._control.log(logging.INFO, "data flow is back", direction=self.direction, seconds=seconds)
        if self.sessions == 1:
            task_status.started()
            # It ends by ``close`` alone: what was accepted is still told when the block around it is cancelled.
            self._scope.shield = True
        self._changed.unpark_all()

    async def _claim(self, socket: "Dealer", engine: MTLDataClient) -> None:
        number = engine.claim(self._token)
        for frames in engine.messages_to_send():
            await socket.send(frames)
        while True:
            for message in await socket.receive():
                event = engine.receive(message)
                if isinstance(event, ResponseReceived) and event.sequence == number:
                    if event.code != 200:
                        raise Disconnected(f"{event.code} the broker at {self._url.address()} does not know the lease")
                    return

    def _end(self, engine: MTLDataClient) -> None:
        """Forget one engine, and what waits to be sent by it."""
        self._engine = self._socket = None
        self._next_sequence = engine.next_sequence
        self._outgoing.clear()
        responses, self._responses = self._responses, {}
        for pending in responses.values():
            pending.fail(
                Disconnected(f"the data flow to {self._url.address()} was lost before the broker had answered")
            )
        self._lost()

    def lose(self) -> None:
        """End this connection of the flow; the next one follows."""
        self._session.cancel()

    def fail(self, error: TriomqError) -> None:
        """End for good."""
        self._error = self._error or error
        self._changed.unpark_all()

    @property
    def reconnects(self) -> int:
        """How often it has come back."""
        return max(self.sessions - 1, 0)

    @property
    def is_connected(self) -> bool:
        """Whether a broker has the lease, as far as is known."""
        return self._engine is not None

    # What a subclass does

    @abstractmethod
    async def _begin(self, engine: MTLDataClient) -> None:
        """Say what a broker has to know when the flow begins, or begins again."""

    @abstractmethod
    def _lost(self) -> None:
        """Note that the flow is lost, for now or for good."""

    @abstractmethod
    def _prepare(self, engine: MTLDataClient) -> None:
        """Give the engine what is to be sent."""

    @abstractmethod
    def _take_event(self, event: object) -> None:
        """Take contents, confirms, rejections, and Responses to nothing that was asked."""

    @property
    def _is_taking(self) -> bool:
        """Whether more may come."""
        return True

    # Tasks

    async def _receive(self, socket: "Dealer", engine: MTLDataClient) -> None:
        try:
            while True:
                self._take(engine, await socket.receive())
                self.flush()
                while not self._is_taking:
                    await self._changed.park()
        except trio.BrokenResourceError:
            self.lose()

    def _take(self, engine: MTLDataClient, messages: Sequence[Sequence[bytes]]) -> None:
        place, count = 0, len(messages)
        while place < count:
            run = engine.receive_run(messages, place)
            if run is not None:
                self._take_event(run)
                place += run.count
                continue
            event = engine.receive(messages[place])
            place += 1
            if not isinstance(event, ResponseReceived):
                self._take_event(event)
            elif (pending := self._responses.pop(event.sequence, None)) is not None:
                pending.resolve(event.code)
            else:
                self._take_event(event)
                if event.code == 403:
                    self.lose()

    async def _send(self, socket: "Dealer") -> None:
        while True:
            self.flush()
            while self._outgoing:
                for _ in range(socket.send_all(self._outgoing)):
                    self._outgoing.popleft()
                if self._outgoing:
                    try:
                        await socket.wait_connected()
                    except trio.BrokenResourceError:
                        self.lose()
                        await trio.sleep_forever()
            self._changed.unpark_all()
            if not self._flush_due:
                self._has_outgoing = trio.Event()
                await self._has_outgoing.wait()

    async def _keep_time(self, engine: MTLDataClient) -> None:
        while (timer := engine.next_timer()) is not None:
            await trio.sleep_until(timer)
            if not self._is_taking:
                engine.heard()
            if isinstance(engine.handle_timer(trio.current_time()), FlowSilent):
                self.lose()
            self.flush()

    # Sending

    def flush_soon(self) -> None:
        """Have what is to be sent sent at the end of the turn."""
        if not self._flush_due:
            self._flush_due = True
            self._has_outgoing.set()

    def flush(self) -> None:
        """Send what is to be sent, as far as the socket has room."""
        engine, socket = self._engine, self._socket
        if engine is None or socket is None:
            return
        self._flush_due = len(self._outgoing) >= MOST_OUTGOING
        if not self._flush_due:
            self._prepare(engine)
        messages = engine.messages_to_send()
        if not messages:
            return
        if not self._outgoing:
            messages = messages[socket.send_all(messages) :]
        if messages:
            self._outgoing.extend(messages)
            self._has_outgoing.set()

    async def ask(self, number: int) -> int:
        """Wait for the Response to a command that was given to the engine, and return its code.

        Raises:
            Disconnected: The flow was lost meanwhile.
        """
        pending: PendingReply[int] = PendingReply()
        self._responses[number] = pending
        self.flush()
        return await pending.wait()

    # Ending

    async def _wait_read(self) -> None:
        """Wait until the broker has read all that was sent.

        Raises:
            Disconnected: The flow was lost meanwhile.
        """
        engine = self._engine
        if engine is not None:
            self.flush()
            await self.ask(engine.claim(self._token))  # which changes nothing, but is answered behind all else

    async def close(self) -> None:
        """End, and give the lease back, if that can be done soon; also where the block around it is cancelled."""
        with trio.move_on_after(_CLOSE, shield=True):
            if self.is_connected and self._error is None:
                try:
                    await self._wait_read()
                    await self._control.release(self._token)
                except TriomqError:
                    pass
        self.fail(LocalProtocolError("this was closed when its block was left; open another"))
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()

    def _check(self) -> None:
        if self._error is not None:
            raise type(self._error)(*self._error.args)

    def _refusal(self, code: int, what: str) -> TriomqError:
        return refusal_of(code, f"the broker at {self._url.address()} refuses {what}")
