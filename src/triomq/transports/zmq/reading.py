"""Reading the messages of a ROUTER, or of a DEALER with one peer, frame by frame.

libzmq says of each frame whether another one of the same message follows. pyzmq tells that with a ``Frame``, which
costs 0.6 us, and bytes without it cost 0.25. Where a protocol says how many frames a message has (``MessageForm``), so
many are read as bytes, and the last one as a ``Frame``, which shows that the message ends there. A message of eight
frames takes 2.9 us so, instead of 5.5.

    identity, "", eMQP/1.0, REQUEST ── has 7 frames ──> 3 as bytes ──> Frame ── the last one ──> a message
                                                                         └─ more follows ──> up to the end ──> separate

A message that is longer than its form is read to its end. One that is shorter has the beginning of the next one behind
it, perhaps another peer's, and the two are separated where the form begins anew. Nothing is lost by that but what was
no message of this protocol: several of those in a row may be taken for one of the first one's peer. But a peer can
write a long message that looks like a short one, and so speak for another peer. So forms are for sockets whose peers
are all one user, as the one peer of a DEALER is; where an authenticator has let them in each frame is asked.

A message may have millions of frames, and nobody else is served while they are read. So it is cut where no protocol
goes, and what is left of it is read and dropped in several series. (libzmq itself keeps the whole of it until then.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import zmq
from zmq.backend import Socket as _Backend

from triomq.transports.zmq.socket import BATCH, Frames

Received: TypeAlias = dict[tuple[bytes, str], list[Frames]]
"""Messages, without the identity, by the identity of their peer and by the user as whom an ``Authenticator`` has let it
in; that is empty if none was asked."""

MOST_BYTES: Final = 256 * 1024
"""Bytes from which a series brings no further message: what comes is in memory before anything can refuse it, and that
the store is behind is seen between series."""

_HEADER: Final = 8
"""What an octet counts as that is not in the last frame of its message: bodies are copied, all else is read, and 32 KiB
of tables take 15 ms."""

MOST_FRAMES: Final = 64
"""Frames of a message, without the identity; the rest is dropped. Protocols here have a dozen at most, so that one that
was cut is too long for any of them."""

_DROPPED: Final = 4096
"""Frames that one series drops: 2 ms of work, as others take."""

_NOW: Final = int(zmq.DONTWAIT)
_MORE: Final = int(zmq.RCVMORE)


class MessageForm(NamedTuple):
    """How messages of a protocol begin, and how long they are.

    Args:
        start: The first two frames of each.
        least: Frames that the shortest one has.
        lengths: How many frames a message usually has, at least four, by its third one.
    """

    start: tuple[bytes, bytes]
    least: int
    lengths: Mapping[bytes, int]


def receive_all(socket: zmq.Socket[bytes], found: Received, *, asks_users: bool) -> None:
    """Read what is here, as far as one series goes, and ask each frame.

    Raises:
        zmq.ZMQError: Nothing more is here (``zmq.Again``), or the socket has ended; what was found stands.
    """
    if not _is_between(socket):
        return
    receive: Callable[..., Any] = _Backend.recv
    room, user = MOST_BYTES, ""
    for _ in range(BATCH):
        identity = receive(socket, _NOW)  # which something follows always
        frame = receive(socket, _NOW, False)
        frames: Frames = [frame.bytes]
        while frame.more and len(frames) < MOST_FRAMES:
            frame = receive(socket, _NOW, False)
            frames.append(frame.bytes)
        if asks_users:
            user = user_of(frame)
        _add(found, identity, user, frames)
        room -= _HEADER * sum(map(len, frames)) - (_HEADER - 1) * len(frames[-1])
        if room <= 0 or frame.more:
            return


def _is_between(socket: zmq.Socket[bytes]) -> bool:
    """Drop what is left of a message that was cut, as far as one series goes; return whether the next one follows."""
    if not _Backend.get(socket, _MORE):
        return True
    receive: Callable[..., Any] = _Backend.recv
    return any(not receive(socket, _NOW, False).more for _ in range(_DROPPED))


def receive_by_form(
    socket: zmq.Socket[bytes], found: Received, form: MessageForm, *, has_identities: bool = True
) -> None:
    """Read what is here, as ``receive_all`` does, by the form of its messages.

    Args:
        socket: The socket.
        found: What is found is added to it, by an empty identity where there are none.
        form: Of its messages.
        has_identities: Whether it is a ROUTER, which puts one before each message.

    Raises:
        zmq.ZMQError: As ``receive_all`` does.
    """
    if not _is_between(socket):
        return
    receive: Callable[..., Any] = _Backend.recv
    (empty, version), lengths = form.start, form.lengths
    room = MOST_BYTES
    identity = b""
    for _ in range(BATCH):
        if has_identities:
            identity = receive(socket, _NOW)
        frames: Frames = [receive(socket, _NOW)]
        add, length = frames.append, 0
        try:
            if frames[0] == empty:
                add(receive(socket, _NOW))
                if frames[1] == version:
                    add(receive(socket, _NOW))
                    length = lengths.get(frames[2], 0)
            for _ in range(length - 4):
                add(receive(socket, _NOW))
            known = len(frames)
            if length:
                frame = receive(socket, _NOW, False)
                add(frame.bytes)
                more = frame.more
            else:
                more = bool(_Backend.get(socket, _MORE))
            is_whole = length > 0 and not more
            while more and len(frames) < MOST_FRAMES:
                frame = receive(socket, _NOW, False)
                add(frame.bytes)
                more = frame.more
        except zmq.Again:  # a message is here whole or not at all, so this one was shorter
            known, is_whole, more = len(frames), False, False
        if is_whole:
            _add(found, identity, "", frames)
        else:
            for whose, message in separate(identity, frames, known, form, has_identities=has_identities):
                _add(found, whose, "", message)
        room -= _HEADER * sum(map(len, frames)) - (_HEADER - 1) * len(frames[-1])
        if room <= 0 or more:
            return


def separate(
    identity: bytes, frames: Frames, known: int, form: MessageForm, *, has_identities: bool = True
) -> Iterator[tuple[bytes, Frames]]:
    """Yield messages and their identities, of frames that were read as one message.

    Args:
        identity: Of the first one.
        frames: The frames that follow.
        known: So many of these may have been the last one of a message, and were not asked.
        form: Of messages.
        has_identities: Whether there is one before each message.
    """
    begin, (empty, version), ahead = 0, form.start, int(has_identities)
    for place in range(1, min(known, len(frames) - form.least - ahead) + 1):
        start = place + ahead
        is_start = frames[start] == empty and frames[start + 1] == version
        # The third frame names a command: what looks like a start in the middle of a message has data there.
        if place > begin and is_start and frames[start + 2][:1].isalpha():
            yield identity, frames[begin:place]
            identity, begin = frames[place] if has_identities else b"", start
    yield identity, frames[begin:]


def _add(found: Received, identity: bytes, user: str, frames: Frames) -> None:
    messages = found.get((identity, user))
    if messages is None:
        found[identity, user] = [frames]
    else:
        messages.append(frames)


def user_of(frame: zmq.Frame) -> str:
    """Return as whom the sender of a frame was let in; empty if no authenticator was asked."""
    try:
        user = frame.get("User-Id")
    except zmq.ZMQError:  # there is no such property: NULL, with no authenticator
        return ""
    return user if isinstance(user, str) else ""
