"""Decides which peers may connect to a ZeroMQ socket (ZAP, RFC 27).

libzmq asks about each handshake over ``inproc://zeromq.zap.01`` of the socket's own context, and lets the peer wait
until it is answered; if nothing is bound there, for ever. So an authenticator is bound before the sockets that have a
domain, there is one for each context, and it outlives them. A question is a task of its own, since a slow password must
not hold up others; a REP socket, as most authenticators use it, would answer them one by one.

A peer that is refused is told so by PLAIN and CURVE alone, and tries again for ever. The answer's user stands as
``User-Id`` at each of its messages from then on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

import msgspec
import trio
import zmq

from triomq.transports.zmq.reading import Received
from triomq.transports.zmq.router import Router
from triomq.transports.zmq.socket import Frames

ADDRESS: Final = "inproc://zeromq.zap.01"
"""Where libzmq asks (RFC 27)."""

_VERSION: Final = b"1.0"


class ZAPMechanism(Enum):
    """How a peer says who it is."""

    NULL = "NULL"
    PLAIN = "PLAIN"
    CURVE = "CURVE"


class Question(msgspec.Struct, frozen=True, gc=False):
    """May this peer connect?

    Args:
        domain: The domain of the socket that it wants to.
        address: Its IP address; empty where it has none.
        identity: That of the connection in libzmq, mostly empty; never the one that the peer has chosen for messages.
        mechanism: How it says who it is.
        user: With PLAIN, the user's name.
        password: With PLAIN.
        key: With CURVE, its public key, 32 octets, which it has shown to own.
    """

    domain: str
    address: str
    identity: bytes
    mechanism: ZAPMechanism
    user: str = ""
    password: str = ""
    key: bytes = b""

    def __repr__(self) -> str:
        return f"Question(domain={self.domain!r}, address={self.address!r}, mechanism={self.mechanism.name})"


class Authenticator:
    """Answers for all sockets of a context that have a domain; its maker runs ``run`` in a task, and closes it last.

    Args:
        context: The sockets'.
        decide: Called with each question; returns as which user the peer is let in, or None to refuse it.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], decide: Callable[[Question], Awaitable[str | None]]
    ) -> None:
        self._decide = decide
        self._router = Router(context, self._received)
        self._router.bind(ADDRESS)
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Answer until it is closed."""
        async with trio.open_nursery() as self._nursery:
            await self._router.run()
            self._nursery.cancel_scope.cancel()

    def close(self) -> None:
        """Answer nothing more."""
        self._router.close()

    def _received(self, found: Received) -> None:
        assert self._nursery is not None
        for (identity, _), messages in found.items():
            for frames in messages:
                self._nursery.start_soon(self._answer, identity, frames)

    async def _answer(self, identity: bytes, frames: Frames) -> None:
        request, question = read_question(frames)
        user = None if question is None else await self._decide(question)
        if self._router.closed:
            return
        answer = (b"400", b"refused", b"") if user is None else (b"200", b"", user.encode())
        self._router.send_to(identity, (b"", _VERSION, request, *answer, b""))


def read_question(frames: list[bytes]) -> tuple[bytes, Question | None]:
    """Return a request's number and its question; None for a question that can only be refused."""
    try:
        _, _, request, domain, address, identity, name, *credentials = frames
    except ValueError:  # libzmq never sends this
        return b"", None
    try:
        mechanism = ZAPMechanism(name.decode())
        question = Question(domain.decode(), address.decode(), identity, mechanism)
        if mechanism is ZAPMechanism.PLAIN:
            user, password = credentials
            question = msgspec.structs.replace(question, user=user.decode(), password=password.decode())
        elif mechanism is ZAPMechanism.CURVE:
            (key,) = credentials
            question = msgspec.structs.replace(question, key=key)
    except ValueError:  # a name that is not UTF-8, a mechanism that we do not know
        return request, None
    return request, question
