"""The sockets of MTL: which messages are of which client.

    control   identity, '', name, body                    one session
              identity, 00…, '', name, body               one session for each client of a proxy
    data      identity, header, body                      one flow
    shared    both: data begins with an octet from 1 to 9, control with a letter or an envelope

A proxy puts the identities of its own clients before their messages, so that they come over one connection. The frames
that ZeroMQ's proxies make have five octets and begin with 0; they are what sessions are told apart by. The four octets
that ZMQ_REQ_CORRELATE puts there change with each request, and name nobody. What is neither was chosen by a client of
the proxy, so another one can choose the same: it gets no session (``MTLControlPeer``). Nor do four octets that come
again, as a name does.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeAlias

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.peer_listener import Frames, PeerListener
from triomq.endpoints.base.router_client import RouterClient
from triomq.endpoints.mtl.admission import ConnectionAdmission
from triomq.endpoints.zmtp import RouterListener
from triomq.protocols.mtl import is_data
from triomq.transports import TLS

MakePeer: TypeAlias = Callable[[PeerListener, bytes, str], RouterClient]

Route: TypeAlias = tuple[bytes, ...]
"""Identities behind that of a proxy."""

_MADE_SIZE, _CORRELATION_SIZE = 5, 4

_DATA = "data"


def is_made(identity: bytes) -> bool:
    """Return whether an identity looks like those that libzmq makes for peers that choose none."""
    return len(identity) == _MADE_SIZE and not identity[0]


def route_of(frames: Frames) -> Route:
    """Return the identities in an envelope, beside the numbers of ZMQ_REQ_CORRELATE; none if there is no envelope."""
    if len(frames) == 2 or not frames[0]:
        return ()
    envelope = frames[: frames.index(b"")] if b"" in frames else []
    return tuple(frame for frame in envelope if len(frame) != _CORRELATION_SIZE)


def number_of(frames: Frames) -> bytes:
    """Return the number that ZMQ_REQ_CORRELATE has put into an envelope; empty if there is none."""
    if len(frames) == 2 or not frames[0]:
        return b""
    envelope = frames[: frames.index(b"")] if b"" in frames else []
    return b"".join(frame for frame in envelope if len(frame) == _CORRELATION_SIZE)


class ControlListener(RouterListener):
    """A socket for control."""

    def sorted_by_client(self, identity: bytes, messages: list[Frames]) -> Iterable[tuple[Hashable, list[Frames]]]:
        """Return messages by the session that they are of."""
        found: dict[Route, list[Frames]] = {}
        for frames in messages:
            found.setdefault(route_of(frames), []).append(frames)
        return [((identity, *route) if route else None, its) for route, its in found.items()]


class SharedListener(ControlListener):
    """A socket for control and data.

    Args:
        context: What the broker lends.
        host: An address, or ``*`` for all of IPv4; or several.
        port: A port, or 0 for one that is free.
        make_control: Makes the client of a control session.
        make_data: Makes that of a data flow.
        admission: How peers say who they are.
        tls: How to speak TLS; None is not at all.
    """

    def __init__(
        self,
        context: BrokerContext,
        host: str | Sequence[str],
        port: int,
        make_control: MakePeer,
        make_data: MakePeer,
        admission: ConnectionAdmission,
        *,
        tls: TLS | None = None,
    ) -> None:
        super().__init__(context, host, port, make_control, admission, tls=tls)
        self._make_data = make_data

    def make(self, identity: bytes, login: str, key: Hashable) -> RouterClient:
        """Make a client of either kind."""
        if key == (identity, _DATA):
            return self._make_data(self, identity, login)
        return super().make(identity, login, key)

    def sorted_by_client(self, identity: bytes, messages: list[Frames]) -> Iterable[tuple[Hashable, list[Frames]]]:
        """Return messages by flow and by session."""
        data = [frames for frames in messages if is_data(frames)]
        control = [frames for frames in messages if not is_data(frames)] if len(data) < len(messages) else []
        found = list(super().sorted_by_client(identity, control)) if control else []
        return [((identity, _DATA), data), *found] if data else found
