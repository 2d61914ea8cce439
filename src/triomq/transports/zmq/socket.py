"""One ZeroMQ socket under Trio.

libzmq moves bytes in threads of its own and offers one file descriptor for each socket. It does not mean "a message is
here": it becomes readable when a command arrives in the socket's mailbox, and *any* call on the socket, a send as well,
may empty that mailbox. A task that sleeps on the descriptor while another one calls the socket may so lose the only
wake-up that there will be, and sleep for ever. What a socket is ready for is said by its option EVENTS alone.

Rules, which make a lost wake-up impossible:

1. No task waits for the descriptor unless EVENTS, read after the last call on the socket and with no checkpoint in
   between, lacks the event that is waited for.
2. At most one task waits for the descriptor, inside of a cancel scope of its own; all others wait in a parking lot.
   When the one leaves, for whatever reason, it wakes them all, and each begins again with rule 1.
3. After a call on the socket while a task waits for the descriptor, EVENTS is read again, once for a series of calls,
   and the scope of the waiting task is cancelled when the socket is ready for something that a task waits for.
4. Up to ``BATCH`` messages are received at a wake-up; one checkpoint, two microseconds, is paid for all of them.
5. The descriptor is announced as closing before the socket is closed.
6. All calls come from Trio's thread.

pyzmq's own multipart calls cost 1 µs for each frame; the backend's ``send`` and ``recv`` with ``Frame.more``, which are
public, cost half of that at eight frames. A message is sent whole or not at all: when there is no room, libzmq says so
at the first frame.

Tried and dropped: one message for each await (0.4 times the rate); a thread with a poller (as fast, but one more thread
that wants the interpreter lock, and closing it is delicate).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from ipaddress import ip_address
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

import trio
import zmq
from zmq.backend import Socket as _Backend

from triomq.errors import ConfigError
from triomq.process import Place, close_in_forks, close_places_in_forks, refuse_in_forks

if TYPE_CHECKING:
    from collections.abc import Callable

Frames: TypeAlias = list[bytes]
"""One message."""

ZMQContext: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"
"""What sockets live in."""

BATCH: Final = 256
"""Messages received at one wake-up: 32 are 5 % dearer, and with 256 at some 10 µs of work each others wait 3 ms."""

_NOW: Final = int(zmq.DONTWAIT)
_MORE_NOW: Final = int(zmq.DONTWAIT | zmq.SNDMORE)
_IN: Final = int(zmq.POLLIN)
_OUT: Final = int(zmq.POLLOUT)

_SOCKETS: Final = 10_000
"""Sockets of one context. libzmq's 1,023 are too few for a program that opens a client for each of its tasks; an unused
place costs 8 bytes."""


def make_context() -> ZMQContext:
    """Create what sockets live in: a thread for their bytes, the names of ``inproc`` addresses, one authenticator."""
    context: ZMQContext = zmq.Context()
    context.max_sockets = _SOCKETS
    return context


async def close_context(context: ZMQContext) -> None:
    """End a context whose sockets are closed, once what they had to send is sent or its time is over."""
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(context.term)


class ZMQSocket:
    """A socket of any kind; the code that creates it closes it.

    Args:
        context: Where it lives.
        kind: ``zmq.DEALER``, ``zmq.SUB`` and so on.
        high_water: Messages that libzmq holds for each peer, in each direction; 0 is without limit.
        domain: For a socket that binds: the name under which an ``Authenticator`` is asked about its peers. If it is
            empty, peers with NULL are let in without a question.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], kind: int, *, high_water: int = 1000, domain: str = ""
    ) -> None:
        self.socket = context.socket(kind)
        self.socket.set_hwm(high_water)
        self.socket.linger = 0
        if domain:
            self.socket.setsockopt_string(zmq.ZAP_DOMAIN, domain)
        self._descriptor = int(self.socket.FD)
        self._places: list[Place] = []  # libzmq's own sockets are found by these
        close_places_in_forks(close_in_forks(self, ZMQSocket._descriptors), ZMQSocket._open_places)
        refuse_in_forks(self, "a ZeroMQ socket")
        self._waiting: trio.CancelScope | None = None  # of the one task that waits for the descriptor
        self._wanted: list[int] = []  # an event for each task that waits
        self._parked = trio.lowlevel.ParkingLot()
        self._looks_soon = False
        self._lost = (
            False  # whether its connection is, for sockets that are told: nothing will come that a task waits for
        )

    # Addresses

    def bind(self, address: str) -> str:
        """Listen, and return the address with the port that was chosen where it ends with ``:0`` or ``:*``.

        Raises:
            ConfigError: The address is in use, foreign, or none.
        """
        try:
            self.socket.bind(address.removesuffix(":0") + ":*" if address.endswith(":0") else address)
        except zmq.ZMQError as error:
            raise ConfigError(f"cannot listen on {address!r}: {error.strerror or error}") from None
        bound = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._places += places_of(bound, is_ours=True)
        return bound

    def connect(self, address: str) -> None:
        """Connect now and, in the background, again whenever the connection is lost.

        Raises:
            ConfigError: The address is none.
        """
        try:
            self.socket.connect(address)
        except zmq.ZMQError as error:
            raise ConfigError(f"cannot connect to {address!r}: {error.strerror or error}") from None
        self._places += places_of(address, is_ours=False)

    # Messages

    def send_nowait(self, frames: Sequence[bytes]) -> bool:
        """Send a message if there is room for it, and return whether there was.

        Raises:
            trio.ClosedResourceError: The socket is closed.
            zmq.ZMQError: With EHOSTUNREACH from a ROUTER that is to say so.
        """
        try:
            put_message(self.socket, frames)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            raise self._closed_or(error) from None
        finally:
            self._called()
        return True

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send a message, and wait as long as there is no room for it. Never for a ROUTER (see ``Router``).

        Raises:
            trio.ClosedResourceError: The socket is closed.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self.send_nowait(frames):
            await self._wait(_OUT)
        await trio.lowlevel.cancel_shielded_checkpoint()

    def receive_nowait(self, most: int = BATCH) -> list[Frames]:
        """Return what is here: at most so many messages, none if there is nothing.

        Raises:
            trio.ClosedResourceError: The socket is closed.
        """
        messages: list[Frames] = []
        socket, receive = self.socket, _Backend.recv
        try:
            for _ in range(most):
                frame = receive(socket, _NOW, False)
                frames = [frame.bytes]
                while frame.more:
                    frame = receive(socket, _NOW, False)
                    frames.append(frame.bytes)
                messages.append(frames)
        except zmq.Again:
            pass
        except zmq.ZMQError as error:
            raise self._closed_or(error) from None
        finally:
            self._called()
        return messages

    async def receive(self, most: int = BATCH) -> list[Frames]:
        """Wait for messages, and return those that are here: at least one.

        Raises:
            trio.ClosedResourceError: The socket is closed.
        """
        await trio.lowlevel.checkpoint()
        while not (messages := self.receive_nowait(most)):
            await self._wait(_IN)
        return messages

    # Waiting: the rules above

    def events(self) -> int:
        """Return what the socket is ready for: the bits ``zmq.POLLIN`` and ``zmq.POLLOUT``."""
        try:
            return int(self.socket.getsockopt(zmq.EVENTS))
        except zmq.ZMQError as error:
            raise self._closed_or(error) from None

    async def _wait(self, event: int) -> None:
        self._wanted.append(event)
        try:
            while not self.events() & event:  # rule 1
                if self._lost:
                    raise trio.BrokenResourceError("the connection was lost")
                if self._waiting is not None:  # rule 2
                    await self._parked.park()
                else:
                    await self._wait_first()
        finally:
            self._wanted.remove(event)

    async def _wait_first(self, deadline: float = inf) -> None:
        """Wait for the descriptor, for all, or until a time has come."""
        with trio.CancelScope(deadline=deadline) as self._waiting:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
            finally:
                self._waiting = None
                self._parked.unpark_all()

    def _called(self) -> None:
        """Have EVENTS looked at after this series of calls, if a task waits that this one may have robbed (rule 3)."""
        if self._waiting is not None and not self._looks_soon:
            self._looks_soon = True
            trio.lowlevel.current_trio_token().run_sync_soon(self._look)

    def _look(self) -> None:
        self._looks_soon = False
        if self._waiting is not None and not self.socket.closed:
            events = self.events()
            if any(events & event for event in self._wanted):
                self._waiting.cancel()

    # Ending

    @property
    def closed(self) -> bool:
        return self.socket.closed

    def close(self, linger: float = 0.0) -> None:
        """Close; tasks that wait, and later callers, get ``trio.ClosedResourceError``.

        Args:
            linger: Seconds for which libzmq goes on sending what it has taken; ``close_context`` waits for that.
        """
        if not self.socket.closed:
            trio.lowlevel.notify_closing(self._descriptor)
            self._parked.unpark_all()
            self.socket.close(round(linger * 1000))

    def _descriptors(self) -> list[int]:
        return [] if self.socket.closed else [self._descriptor]

    def _open_places(self) -> list[Place]:
        return [] if self.socket.closed else self._places

    def _closed_or(self, error: zmq.ZMQError) -> Exception:
        if self.socket.closed or error.errno in (errno.ENOTSOCK, zmq.ETERM):
            return trio.ClosedResourceError("this ZeroMQ socket is closed")
        return error


def places_of(address: str, *, is_ours: bool) -> list[Place]:
    """Return where the sockets of an address lead, of which libzmq tells nobody; none for one within the process.

    Args:
        address: As libzmq takes it. A host that is a name stands for any host, since only libzmq has resolved it.
        is_ours: Whether it is bound; else it is connected to.
    """
    scheme, _, rest = address.partition("://")
    if scheme == "ipc":
        return [Place(rest, 0, is_ours)]
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not port.isdigit():
        return []
    host = host.rpartition(";")[2].strip("[]")
    try:
        return [Place(str(ip_address(host)), int(port), is_ours)]
    except ValueError:
        return [Place("", int(port), is_ours)]


def put_message(socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> None:
    """Hand a message to libzmq.

    Raises:
        zmq.Again: There is no room; nothing was sent.
        zmq.ZMQError: Nothing was sent for another reason.
    """
    send: Callable[..., object] = _Backend.send
    last = len(frames) - 1
    for number, frame in enumerate(frames):
        send(socket, frame, _NOW if number == last else _MORE_NOW)
