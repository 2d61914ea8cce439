"""One data flow, messages of two frames in and out: a server with one peer, or a client with its server.

    client                                  server
      │ ── Lease 1, token ─────────────────► │  LeaseClaimed
      │ ◄── Response 1, 200 ──────────────── │  grant
      │ ── Summon 2, resource ─────────────► │  Summoned          a reader's
      │ ◄── Response 2, 200 ──────────────── │  respond
      │ ◄── Content 1, 2, 3 … ────────────── │  send_contents
      │ ── Confirm 3, multiple ────────────► │  ConfirmRun
      │                                      │
      │ ── Content 2, 3, 4 … ──────────────► │  ContentRun        a writer's
      │ ◄── Confirm 4, multiple ──────────── │  confirm_contents
      │ ◄──────────── Ping, Pong ──────────► │  where nothing else goes

Rules:

- A message is whole, so it is one event at most, and ``receive`` returns that. Messages in a row that are alike are
  read by ``receive_run``, which returns None for those that need a closer look.
- What is ill-formed is dropped and reported. What is well formed and invalid is answered by the engine, as far as it
  can tell: where the command has a sequence, by a Response (11/MTL, data flow error handling).
- Nothing that an owner may have to put off changes with ``receive``, but with its answer. So a driver may receive the
  same message again.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from math import isfinite
from typing import Final, Generic, TypeVar

from triomq.errors import LocalProtocolError
from triomq.protocols.heartbeats import TICKS_PER_HEARTBEAT, Heartbeats
from triomq.protocols.mtl.codes import FaultReason
from triomq.protocols.mtl.events import ConfirmModel, ContentsRejected, FlowSilent, IllFormed
from triomq.protocols.mtl.headers import (
    BEHIND_SEQUENCE,
    COMMAND_NAMES,
    CONFIRM,
    CONTENT,
    PING_FRAMES,
    PONG_FRAMES,
    confirm_frames,
    pack_numbered,
    read_settlement,
    reject_frames,
    text_field,
)
from triomq.protocols.mtl.kinds import ContentKinds
from triomq.protocols.mtl.requests import Frames, WireFault
from triomq.protocols.mtl.runs import ConfirmRun, ContentRun, read_confirms, read_contents
from triomq.protocols.mtl.settings import MTLSettings
from triomq.protocols.mtl.states import FlowState, FlowTable

E = TypeVar("E")

_SETTLEMENT_SIZES: Final = (10, 11)


def content_suffix(resource: str, table: bytes) -> bytes:
    """Write what stands behind the sequence in the header of a Content, for ``send_contents``.

    Args:
        resource: The name; may be empty where the lease has exactly one.
        table: The properties, as ``encode_content`` writes them.

    Raises:
        LocalProtocolError: The name cannot be sent.
    """
    return text_field(resource) + table


class MTLDataEngine(Generic[E]):
    """What both sides have in common; use ``MTLDataServer`` or ``MTLDataClient``.

    Whoever has the socket creates the engine, gives it each message, sends what ``messages_to_send()`` returns, and
    calls ``handle_timer`` when ``next_timer()`` has come, which is to be looked at after each turn. Nothing that a peer
    sends makes it raise.

    Args:
        states: The table of its side.
        now: The present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: Limits and times.
    """

    __slots__ = (
        "_awaits_pong", "_has_heard", "_has_said", "_kinds", "_messages", "_pongs", "_settings", "_states", "_timers",
        "confirm_model", "next_sequence", "state",
    )  # fmt: skip

    def __init__(self, states: FlowTable, now: float, settings: MTLSettings | None) -> None:
        self.state: FlowState = "unleased"
        self.confirm_model: ConfirmModel = "none"
        """Whether contents are confirmed."""
        self.next_sequence = 1
        """The number of what is numbered next."""
        self._settings = settings or MTLSettings()
        self._states = states
        self._timers = Heartbeats(now, self._settings.heartbeat)
        self._has_heard = self._has_said = self._awaits_pong = False
        self._pongs = self._pongs_per_tick
        self._kinds: ContentKinds | None = None  # until a Content comes: most readers never see one
        self._messages: list[Frames] = []

    # What comes

    def receive(self, frames: Sequence[bytes]) -> E | IllFormed | None:
        """Take a message, without the identity that a ROUTER has before it; return what it means to the owner."""
        if self.state == "closed":
            return None
        self._has_heard = True
        try:
            if len(frames) != 2:
                raise WireFault("frames")
            header, body = frames
            if not header:
                raise WireFault("header")
            name = COMMAND_NAMES.get(header[0])
            if name is None:
                raise WireFault("type")
            reader = self._readers.get(name)
            if reader is not None:
                return reader(self, header, body)
            self._read_beat(name, header)
        except WireFault as fault:
            return IllFormed(fault.reason)
        return None

    @property
    def _readers(self) -> "Mapping[str, Callable[..., E | None]]":
        """By the name of a command, what takes its header and body; without Ping and Pong."""
        raise NotImplementedError

    def _require(self, name: str, reason: FaultReason = "unasked") -> None:
        """Drop a command that has no place in this state."""
        if f"received {name}" not in self._states[self.state]:
            raise WireFault(reason)

    def _read_beat(self, name: str, header: bytes) -> None:
        if len(header) != 1:
            raise WireFault("header")
        self._require(name)  # a peer without a lease gets no Pong, so that it finds out
        if name == "Pong":
            if not self._awaits_pong:
                raise WireFault("unasked")
            self._awaits_pong = False
        elif self._pongs >= 1:
            self._pongs -= 1
            self._put(PONG_FRAMES)

    def _read_contents(self, messages: Sequence[Sequence[bytes]], start: int, above: int) -> ContentRun | None:
        """Read Contents in a row that are of one kind; None if they have a wrong resource, or the first is too long.

        Raises:
            WireFault: The first is ill-formed.
            InvalidContent: Its properties are.
        """
        kinds = self._known_kinds()
        kind = kinds.find(messages[start][0])
        resource = self._resource_of(kind.resource)
        if resource is None:
            return None
        largest = self._settings.max_message_size
        tables, sequences, bodies = read_contents(messages, start, kind, kinds, largest, above)
        return ContentRun(resource, kind, tables, sequences, bodies) if bodies else None

    def _known_kinds(self) -> ContentKinds:
        if self._kinds is None:
            self._kinds = ContentKinds(self._most_fields)
        return self._kinds

    @property
    def _most_fields(self) -> int:
        """How many values the table of a Content may have; 0 is without limit."""
        return 0

    def _resource_of(self, name: str) -> str | None:
        """Return the resource that a Content names; None if it may not name it."""
        return name

    def _read_confirm_run(self, messages: Sequence[Sequence[bytes]], start: int) -> ConfirmRun | None:
        if not self._is_settled_by_peer("Confirm"):
            return None
        return read_confirms(messages, start, self.next_sequence - 1)

    def _is_settled_by_peer(self, name: str) -> bool:
        return self.confirm_model == "full" and f"received {name}" in self._states[self.state]

    def _read_settlement(self, header: bytes, _: bytes) -> ConfirmRun | ContentsRejected:
        """Read Confirm or Reject: "invalid" ones "are ignored silently"."""
        sequence, multiple, recycle = read_settlement(header)
        name = COMMAND_NAMES[header[0]]
        last = self.next_sequence - 1
        if multiple:
            sequence = min(sequence, last)
        if not self._is_settled_by_peer(name) or not 0 < sequence <= last:
            raise WireFault("unasked")
        if header[0] == CONFIRM:
            return ConfirmRun(sequence if multiple else 0, [] if multiple else [sequence], 1)
        return ContentsRejected(sequence, multiple, recycle)

    # What goes

    def messages_to_send(self) -> list[Frames]:
        """Return what is to be sent since the last call, in order."""
        messages, self._messages = self._messages, []
        return messages

    def send_contents(self, suffix: bytes, bodies: Sequence[bytes]) -> int:
        """Send contents that have everything but the body in common (``content_suffix``).

        Returns:
            The number of the first; the others follow it.

        Raises:
            LocalProtocolError: This side sends none, or not in this state.
        """
        return self.send_each(repeat(suffix, len(bodies)), bodies)

    def send_each(self, suffixes: "Sequence[bytes] | repeat[bytes]", bodies: Sequence[bytes]) -> int:
        """Send contents, each behind its own beginning; otherwise as ``send_contents``."""
        self._must_send("Content")
        first = self.next_sequence
        self.next_sequence = end = first + len(bodies)
        heads = map(pack_numbered, repeat(CONTENT), range(first, end))
        self._messages += [(head + suffix, body) for head, suffix, body in zip(heads, suffixes, bodies, strict=True)]
        self._has_said = True
        return first

    def _settle(self, sequence: int, *, multiple: bool, recycle: bool | None) -> None:
        """Send Confirm, or Reject unless ``recycle`` is None."""
        if recycle is None:
            self._put(confirm_frames(sequence, multiple))
        else:
            self._put(reject_frames(sequence, multiple, recycle))

    def _must_send(self, name: str) -> None:
        """Refuse what has no place.

        Raises:
            LocalProtocolError: It has none in this state.
        """
        if f"sent {name}" not in self._states[self.state]:
            raise LocalProtocolError(f"{name} has no place in state {self.state}")

    def _put(self, frames: Frames) -> None:
        self._messages.append(frames)
        self._has_said = True

    # Time and the end

    @property
    def _pongs_per_tick(self) -> float:
        heartbeat = self._settings.heartbeat
        return self._settings.pongs_per_second * heartbeat / TICKS_PER_HEARTBEAT if isfinite(heartbeat) else heartbeat

    def heard(self) -> None:
        """Take the peer for alive: its messages are not read for a while, and it cannot be told by them."""
        self._has_heard = True

    def next_timer(self) -> float | None:
        """Return when to call ``handle_timer``; a moment that has passed means now, ``None`` never."""
        return self._timers.next()

    def handle_timer(self, now: float) -> FlowSilent | None:
        """Do what is due at ``now``: a Ping, or the end by silence. Called early or late it does no harm."""
        heard, self._has_heard = self._has_heard, False
        said, self._has_said = self._has_said, False
        before = self._timers.next()
        due = self._timers.beat(now, silence=self._settings.silence, heard=heard, said=said)
        if self._timers.next() != before:  # a tick has passed
            self._pongs = self._pongs_per_tick
        if due == "silent":
            self.close()
            return FlowSilent()
        if due == "heartbeat":
            self._messages.append(PING_FRAMES)
            self._awaits_pong = True
        return None

    def close(self) -> None:
        """End: nothing will be heard or said any more, but for what waits to be sent."""
        self._go("lost")

    def _go(self, event: str) -> None:
        """Go where the table says."""
        self.state = self._states[self.state].get(event, self.state)
        self._timers.running = self.state not in ("unleased", "closed")


def is_content(frames: Sequence[bytes]) -> bool:
    """Return whether a message is a Content, as far as a look at its beginning tells."""
    return len(frames) == 2 and len(frames[0]) > BEHIND_SEQUENCE and frames[0][0] == CONTENT


def is_confirm(frames: Sequence[bytes]) -> bool:
    """Return whether a message is a Confirm, as far as a look at its beginning tells."""
    return len(frames) == 2 and len(frames[0]) in _SETTLEMENT_SIZES and frames[0][0] == CONFIRM
