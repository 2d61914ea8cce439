"""A ROUTER socket that serves many peers, of which none can hold up the others.

A ROUTER cannot stop reading one of its peers, and what it has no room for it throws away without a word. So here

- reading goes on whatever happens; what is too much is for the protocol to refuse;
- ``send_to`` says at once what becomes of a message: taken, too much for this peer, or the peer is gone (by the option
  ROUTER_MANDATORY);
- libzmq holds few messages for a peer (``HIGH_WATER``), and few bytes of large ones (``HELD_BYTES``). What it has no
  room for waits in an outbox of that peer, which is bounded, so that the broker can account for it. A peer that takes
  nothing from there is for the protocol to drop.

That a socket can be written to says nothing here: EVENTS has POLLOUT as long as *some* peer has room, and the wake-up
that tells of one peer's room may be eaten by a send to another. So while there are outboxes they are tried again after
each wake-up and every ``_RETRY`` seconds.

The end of a peer is not announced: silence is the only sign, and EHOSTUNREACH when something is sent to it. A peer that
reconnects has another identity, unless it chose one itself; then compare the user, since any peer may choose any
identity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from math import inf
from time import perf_counter
from typing import Any, Final

import trio
import zmq
from zmq.backend import Socket as _Backend

from triomq.transports.zmq.reading import MessageForm, Received, receive_all, receive_by_form
from triomq.transports.zmq.socket import BATCH, ZMQSocket

HIGH_WATER: Final = 10
"""Messages that libzmq holds for a peer: those cannot be counted, put back or dropped. But each time that it is full
the peer costs a wake-up: with 10 a message of eight frames takes 80 µs in a stream of them, with 100 it takes 13,
with 1000 it takes 5."""

HELD_BYTES: Final = 4 * 1024 * 1024
"""Bytes of large frames that libzmq holds for a peer, or a single one that is larger; what a fast network takes within
``_RETRY``. libzmq counts messages alone: a thousand of 16 MiB for a peer that does not read would be 16 GiB."""

LARGE: Final = 128 * 1024
"""Bytes from which a frame is large, and is handed over without being copied, so that pyzmq can tell when libzmq has
written it, by a thread that it has for that: 20 µs more at this size, and fewer from 256 KiB on. All smaller ones of a
peer together are 25 MiB at most where libzmq holds 200."""

OUTBOX_BYTES: Final = 1024 * 1024
"""Bytes of messages that wait for one peer; what a fast network takes in 10 ms."""

_FRAME: Final = 64
"""Bytes that a frame in an outbox counts beside its content: the object and its place."""

_LONG: Final = 0.003
"""Seconds for which peers' messages are passed on without letting others run."""

_RETRY: Final = 0.02
"""Seconds until outboxes are tried again, should no wake-up tell that there is room."""

_IN: Final = int(zmq.POLLIN)
_NOW: Final = int(zmq.DONTWAIT)
_MORE_NOW: Final = int(zmq.DONTWAIT | zmq.SNDMORE)


class Sent(Enum):
    """What became of a message that was to be sent to a peer."""

    TAKEN = "taken"
    """It is with libzmq, or in the peer's outbox."""
    FULL = "full"
    """It was not taken: too much waits for the peer already. ``drained`` is called when there is room again."""
    GONE = "gone"
    """It was not taken: there is no such peer, any more."""


class _Outbox:
    """What waits for one peer."""

    __slots__ = ("bytes", "frames", "since", "sizes")

    def __init__(self, now: float) -> None:
        self.frames: deque[Sequence[bytes]] = deque()
        self.sizes: deque[int] = deque()
        self.bytes = 0
        self.since = now  # when libzmq last took something

    def add(self, frames: Sequence[bytes], most: int) -> bool:
        """Add a message, and return whether there was room for it; when nothing else waits there is."""
        size = sum(map(len, frames)) + _FRAME * len(frames)
        if self.bytes and self.bytes + size > most:
            return False
        self.frames.append(frames)
        self.sizes.append(size)
        self.bytes += size
        return True

    def remove(self, count: int, now: float) -> None:
        """Remove the first messages, which libzmq has taken."""
        for _ in range(count):
            self.frames.popleft()
            self.bytes -= self.sizes.popleft()
        self.since = now


class _Held:
    """The large frames that libzmq holds for one peer."""

    __slots__ = ("_frames", "bytes")

    def __init__(self) -> None:
        self._frames: deque[tuple[zmq.MessageTracker, int]] = deque()  # in the order in which they are written
        self.bytes = 0

    def add(self, tracker: zmq.MessageTracker, size: int) -> None:
        self._frames.append((tracker, size))
        self.bytes += size

    def has_room(self, size: int) -> bool:
        """Forget what has been written; return whether there is room for one more."""
        frames = self._frames
        while frames and frames[0][0].done:
            self.bytes -= frames.popleft()[1]
        return not frames or self.bytes + size <= HELD_BYTES


class Router(ZMQSocket):
    """A ROUTER; an endpoint makes it, runs ``run`` in a task, and closes it.

    Args:
        context: Where it lives.
        received: Called with what has come, in ``run``'s task.
        drained: Called with the identity of a peer whose outbox has become empty.
        gone: Called with the identity of a peer that turned out to be gone while something waited for it.
        domain: As for ``ZMQSocket``.
        outbox_bytes: What may wait for one peer.
        high_water: Messages that libzmq holds for each.
        form: Of messages; used where no authenticator is asked.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        received: Callable[[Received], None],
        *,
        drained: Callable[[bytes], None] = lambda identity: None,
        gone: Callable[[bytes], None] = lambda identity: None,
        domain: str = "",
        outbox_bytes: int = OUTBOX_BYTES,
        high_water: int = HIGH_WATER,
        form: MessageForm | None = None,
    ) -> None:
        super().__init__(context, zmq.ROUTER, high_water=high_water, domain=domain)
        # Reading never stops, so that this is what one series finds. More would only be what a peer can have libzmq
        # hold while this thread is busy, and nothing counts that.
        self.socket.rcvhwm = BATCH
        self.socket.router_mandatory = True
        self._received = received
        self._drained = drained
        self._gone = gone
        self._users = bool(domain)
        self._form = None if domain else form
        self._outbox_bytes = outbox_bytes
        self._outboxes: dict[bytes, _Outbox] = {}
        self._held: dict[bytes, _Held] = {}  # of peers that have been sent a large frame

    def send_to(self, identity: bytes, frames: Sequence[bytes]) -> Sent:
        """Send a message to a peer, or let it wait in its outbox; never blocks, and never waits.

        Raises:
            trio.ClosedResourceError: The socket is closed.
        """
        return self.send_all(identity, (frames,))

    def send_all(self, identity: bytes, messages: Sequence[Sequence[bytes]]) -> Sent:
        """Send messages to a peer, as ``send_to`` does each, with fewer calls; return what became of the last one.

        Raises:
            trio.ClosedResourceError: The socket is closed.
        """
        outbox, count = self._outboxes.get(identity), 0
        if outbox is None:
            count, sent = self._put_all(identity, messages)
            self._called()
            if sent is not Sent.FULL:
                return sent
            outbox = self._outboxes[identity] = _Outbox(trio.current_time())
            self._waking()
        is_taken = True
        for frames in messages[count:]:
            is_taken = outbox.add(frames, self._outbox_bytes)
        return Sent.TAKEN if is_taken else Sent.FULL

    def unsent(self, identity: bytes) -> int:
        """Return how many bytes wait for a peer, beside the few messages that libzmq has."""
        outbox = self._outboxes.get(identity)
        return 0 if outbox is None else outbox.bytes

    def unsent_in_all(self) -> int:
        """Return how many bytes wait for all peers together."""
        return sum(outbox.bytes for outbox in self._outboxes.values())

    def stuck_for(self, identity: bytes, now: float) -> float:
        """Return for how many seconds a peer has taken nothing of what waits for it; 0 if nothing does."""
        outbox = self._outboxes.get(identity)
        return 0.0 if outbox is None else now - outbox.since

    def taken_at(self, identity: bytes) -> float:
        """Return when a peer last took something of what waits for it; 0 if nothing does."""
        outbox = self._outboxes.get(identity)
        return 0.0 if outbox is None else outbox.since

    def forget(self, identity: bytes) -> None:
        """Drop what waits for a peer."""
        self._outboxes.pop(identity, None)
        self._held.pop(identity, None)

    async def run(self) -> None:
        """Receive, and send what waits, until the socket is closed; no other task waits for it."""
        self._wanted.append(_IN)
        try:
            while True:
                if found := self._receive_all():
                    await self._pass_on(found)
                if self._outboxes:
                    self._send_waiting()
                if self.events() & _IN:
                    await trio.lowlevel.checkpoint()
                else:
                    await self._wait_first(trio.current_time() + _RETRY if self._outboxes else inf)
        except trio.ClosedResourceError:
            return
        finally:
            self._wanted.remove(_IN)

    async def _pass_on(self, found: Received) -> None:
        """Pass on what has come, one peer after the other: a checkpoint lets others run where that takes long."""
        began = perf_counter()
        for peer, messages in found.items():
            self._received({peer: messages})
            if perf_counter() - began > _LONG:
                await trio.lowlevel.checkpoint()
                began = perf_counter()

    def _waking(self) -> None:
        """Let ``run`` end its wait soon: there is something now that has a time."""
        if self._waiting is not None:
            self._waiting.deadline = min(self._waiting.deadline, trio.current_time() + _RETRY)

    def _receive_all(self) -> Received:
        found: Received = {}
        try:
            if self._form is None:
                receive_all(self.socket, found, asks_users=self._users)
            else:
                receive_by_form(self.socket, found, self._form)
        except zmq.Again:
            pass
        except zmq.ZMQError as error:
            if not found:
                raise self._closed_or(error) from None
        return found

    def _put_all(self, identity: bytes, messages: Iterable[Sequence[bytes]]) -> tuple[int, Sent]:
        """Hand messages to libzmq while there is room; return how many it has, and what became of the next."""
        send: Callable[..., Any] = _Backend.send
        socket, count = self.socket, 0
        try:
            for frames in messages:
                is_large = len(frames[-1]) >= LARGE
                if is_large and not self._may_hold(identity, len(frames[-1])):
                    return count, Sent.FULL
                send(socket, identity, _MORE_NOW)
                for frame in frames[:-1]:
                    send(socket, frame, _MORE_NOW)
                if is_large:
                    self._held[identity].add(send(socket, frames[-1], _NOW, False, True), len(frames[-1]))
                else:
                    send(socket, frames[-1], _NOW)
                count += 1
        except zmq.Again:
            return count, Sent.FULL
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return count, Sent.GONE
            raise self._closed_or(error) from None
        return count, Sent.TAKEN

    def _may_hold(self, identity: bytes, size: int) -> bool:
        """Return whether libzmq is to be given one more large frame for a peer."""
        held = self._held.get(identity)
        if held is None:
            held = self._held[identity] = _Held()
        return held.has_room(size)

    def _send_waiting(self) -> None:
        """Try each outbox again, as far as libzmq has room for its peer."""
        now = trio.current_time()
        for identity, outbox in list(self._outboxes.items()):
            count, sent = self._put_all(identity, outbox.frames)
            if count:
                outbox.remove(count, now)
            if sent is not Sent.FULL and self._outboxes.pop(identity, None) is not None:
                (self._drained if sent is Sent.TAKEN else self._gone)(identity)
