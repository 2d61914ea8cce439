"""A broker's side of the conversation with one peer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from triomq.protocols.emqp.codes import Code, PeerError
from triomq.protocols.emqp.engine import EMQPEngine
from triomq.protocols.emqp.events import Event, Informed, MessageDropped, PeerLeaving
from triomq.protocols.emqp.extension import LONGEST, NO_EXTENSION, Extension
from triomq.protocols.emqp.frames import (
    VERSION,
    Frames,
    command,
    publish_frames,
    reply_frames,
    request_frames,
    schedule_frames,
)
from triomq.protocols.emqp.headers import NO_HEADERS, Headers
from triomq.protocols.emqp.jobs import JobState, encode_state
from triomq.protocols.emqp.reader import ReadingContext, reading_context
from triomq.protocols.emqp.runs import ReplyRun, RequestRun, read_replies, read_requests
from triomq.protocols.emqp.settings import EXTENSIONS, Settings
from triomq.protocols.emqp.states import BROKER, BROKER_STALE, State

_KNOWN_PEERS_FRAMES: Final = {"received HEARTBEAT": 5, "received REPLY": 6}
"""What a peer says that takes itself to be known, and how many frames that has without extensions."""

_EXTENDED_REQUEST: Final = 8
"""Frames of a REQUEST with an extension frame."""


class BrokerEngine(EMQPEngine):
    """A broker's side of the conversation with one peer, whatever that turns out to be."""

    __slots__ = ("_informed",)
    _stale = BROKER_STALE

    def __init__(
        self, new_id: Callable[[], bytes], *, now: float, unix_time: float, settings: Settings | None = None
    ) -> None:
        super().__init__(BROKER, new_id, now, unix_time, settings or Settings())
        self.state = "guest"
        self._informed = b""  # the id of the peer's INFORM

    def _reading_context(self) -> ReadingContext:
        return reading_context(True, self.is_extended, self._settings.max_message_size, LONGEST)

    def _full_name(self, name: str, event: Event | None) -> str:
        return f"{name} {event.role}" if isinstance(event, Informed) else name

    def _heard(self, event: Event | None, before: State) -> Event | None:
        if isinstance(event, Informed):
            self._informed = event.msgid
            self._announced(event.extension)
            self._timers.running = True
        elif isinstance(event, PeerLeaving) and before == "left":
            return None  # KBYE and KBAI are one goodbye
        return event

    def receive(self, frames: Sequence[bytes]) -> Event | None:
        """Take a message; see ``EMQPEngine.receive``."""
        if self.state == "guest" and len(frames) == _EXTENDED_REQUEST and self._is_of_a_life_before(frames):
            # What it asks for (a limit, a unique key, another attempt) would be passed over. It was on its way to this
            # broker's predecessor, and comes again behind INFORM.
            self._has_heard = True
            self._ask_to_inform(b"")  # the request itself is not refused
            return None
        return super().receive(frames)

    def _is_of_a_life_before(self, frames: Sequence[bytes]) -> bool:
        """Return whether a REQUEST is one that only a peer with extensions sends."""
        is_extended = frames[2] == b"REQUEST" and frames[7].startswith(b"{")
        return is_extended and EXTENSIONS in self._settings.capabilities

    def _out_of_place(self, name: str, frames: Sequence[bytes]) -> Event | None:
        is_stray = len(frames) > _KNOWN_PEERS_FRAMES.get(name, len(frames))
        if self.state == "guest" and is_stray:
            self._ask_to_inform(frames[3])
        return super()._out_of_place(name, frames)

    def _ask_to_inform(self, msgid: bytes) -> None:
        """Tell a guest to begin anew: only one that was told of extensions sends a frame of them."""
        text = "this broker does not know you; begin with INFORM"
        self.outbox.put(command(b"ERROR", self._new_id(), msgid, b"inform", text.encode()))

    def _drop(self, frames: Sequence[bytes], error: PeerError) -> MessageDropped | None:
        dropped = super()._drop(frames, error)
        if dropped is not None and dropped.msgid:
            self.refuse(dropped.msgid, dropped.code, dropped.reason)
        return dropped

    def _inform_again(self) -> None:
        """Do nothing: a broker does not say INFORM."""

    def receive_run(self, messages: Sequence[Sequence[bytes]], start: int) -> RequestRun | ReplyRun | None:
        """Take messages in a row that are alike, from a place on; none if the first of them is for ``receive``.

        They change no state, so that they may be received again.
        """
        frames = messages[start]
        name = frames[2] if len(frames) > 3 else b""
        run: RequestRun | ReplyRun | None = None
        if name == b"REQUEST":
            if "received REQUEST" in self._states[self.state]:
                run = read_requests(messages, start, self._reading)
        elif self.state == "worker" and name in (b"REPLY", b"READY"):
            run = read_replies(messages, start, self._reading)
        self._has_heard = self._has_heard or run is not None
        return run

    # Commands

    def acknowledge(self, msgid: bytes, *, duplicate_of: bytes = b"") -> None:
        """Say that INFORM is accepted, or that what has this id is safe.

        Args:
            msgid: the id.
            duplicate_of: the job that is there already, in whose place a REQUEST is taken.
        """
        if not self._may_send("sent ACK"):
            return
        extension: Extension | None = None
        if duplicate_of:
            extension = Extension(duplicate_of=duplicate_of.decode("utf-8", "replace"))
        if msgid == self._informed and self.is_extended:
            extension = Extension(capabilities=self._settings.capabilities)
        frames = command(b"ACK", self._new_id(), msgid, extension=self._extension(extension))
        if self.is_extended or msgid == self._informed:
            self.outbox.put(frames)
        else:
            self.outbox.notices.append(frames)

    def acknowledge_all(self, msgids: Iterable[bytes]) -> None:
        """Say that REQUESTs with these ids are safe."""
        if not self._may_send("sent ACK"):
            return
        new_id = self._new_id
        messages = [(b"", VERSION, b"ACK", new_id(), msgid) for msgid in msgids]
        if self.is_extended:
            self.outbox.put_all(messages)
        else:
            self.outbox.notices += messages

    def refuse(self, msgid: bytes, code: Code, text: str) -> bool:
        """Say that what has this id is not taken; return whether the peer can be told, or it is for the log alone."""
        if not self.is_extended or not self._may_send("sent ERROR"):
            return False
        self._put(b"ERROR", msgid, code.encode(), text.encode("utf-8", "replace"))
        return True

    def request(
        self, msgid: bytes, queue: str, headers: Headers, message: bytes, extension: Extension | None = None
    ) -> None:
        """Give a worker a job, under the id that its reply will name; one for each slot that it has offered.

        Raises:
            LocalProtocolError: the peer is no worker, or is leaving, or cannot be sent such a message.
        """
        self._must_send("sent REQUEST", message)
        self.outbox.put(request_frames(msgid, queue, headers, message, self._extension(extension)))

    def request_all(self, messages: Sequence[Frames]) -> None:
        """Give a worker jobs that are written already (``request_frames``), of which it can be sent each (``carries``).

        Raises:
            LocalProtocolError: the peer is no worker, or is leaving.
        """
        self._must_send("sent REQUEST")
        self.outbox.put_all(messages)

    def reply_all(self, replies: Iterable[tuple[bytes, bytes, Extension]]) -> None:
        """Send answers, of which the peer can be sent each (``carries``): the request, the message, the extension."""
        if not self._may_send("sent REPLY"):
            return
        new_id, dialect, written = self._new_id, self._settings.dialect, NO_EXTENSION
        frame = self._extension(written)
        messages: list[Frames] = []
        for request, message, extension in replies:
            if extension is not written:  # most jobs end alike, and what says so is the same object
                written, frame = extension, self._extension(extension)
            if frame is None:
                messages.append(reply_frames(new_id(), request, message, dialect=dialect))
            else:
                messages.append((b"", VERSION, b"REPLY", new_id(), message, request, frame))
        self.outbox.put_all(messages)

    def reply(self, request: bytes, message: bytes, extension: Extension | None = None) -> None:
        """Send the answer to a request, or to a question of ``emq-cli``.

        Raises:
            LocalProtocolError: the peer cannot be sent such a message.
        """
        if self._may_send("sent REPLY", message):
            frame = self._extension(extension)
            self.outbox.put(reply_frames(self._new_id(), request, message, frame, self._settings.dialect))

    def progress(self, request: bytes, message: bytes, extension: Extension) -> bool:
        """Tell a client how far a job of its has come, or a worker how far its stream was read.

        Returns:
            Whether the peer can be told, which needs our extensions, and to have said that it is one of the two.
        """
        if not self.is_extended or "sent PROGRESS" not in self._states[self.state]:
            return False
        self._put(b"PROGRESS", request, message, extension=extension)
        return True

    def cancel(self, request: bytes, extension: Extension = NO_EXTENSION) -> bool:
        """Have a worker end a job, be it that the worker is leaving; return whether it can be told.

        Args:
            request: under which id the worker has it.
            extension: ``grace``, if the requester has one.
        """
        if not self.is_extended or "sent CANCEL" not in self._states[self.state]:
            return False
        self._put(b"CANCEL", request, b"", extension=extension)
        return True

    def report_state(self, request: bytes, state: JobState, result: bytes | None = None) -> bool:
        """Tell a client what has become of a job; return whether it can be told.

        Args:
            request: the job's id.
            state: what has become of it.
            result: the answer to it, if the client wants that and it is there.
        """
        if not self.is_extended or "sent STATE" not in self._states[self.state]:
            return False
        self._put(b"STATE", request, encode_state(state), *(() if result is None else (result,)))
        return True

    def publish(
        self, topic: str, message: bytes, headers: Headers = NO_HEADERS, extension: Extension | None = None
    ) -> None:
        """Send what was published to a client that has subscribed.

        Raises:
            LocalProtocolError: the peer is no client, or cannot be sent such a message.
        """
        if self._may_send("sent PUBLISH", message):
            frame = self._extension(extension)
            self.outbox.put(publish_frames(self._new_id(), topic, message, headers, frame, self._publish_dialect))

    def schedule(
        self, queue: str, headers: Headers, message: bytes, *, interval: float = 0.0, cron: str = "", ends: bool = False
    ) -> None:
        """Hand a schedule to a scheduler, or end one; released ones need a ``complete_call``.

        Raises:
            LocalProtocolError: the peer is no scheduler, or is leaving; or it is no schedule (``schedule_frames``).
        """
        self._must_send("sent UNSCHEDULE" if ends else "sent SCHEDULE", message)
        frames = schedule_frames(self._new_id(), queue, headers, message, interval=interval, cron=cron, ends=ends)
        self.outbox.put(frames)
