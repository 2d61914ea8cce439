"""The side of a client, a worker or a scheduler of the conversation with its broker."""

from collections.abc import Callable, Container, Sequence
from typing import Final

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp.engine import EMQPEngine
from triomq.protocols.emqp.events import (
    Acknowledged,
    AdminCommand,
    Dispatched,
    Event,
    Opened,
    PeerLeaving,
    RefusalReceived,
    Replied,
    Unknown,
)
from triomq.protocols.emqp.extension import (
    LONGEST_INFORM,
    LONGEST_PASSED_ON,
    NO_EXTENSION,
    Extension,
    check_written,
    encode_extension,
)
from triomq.protocols.emqp.frames import (
    Frames,
    command,
    inform_frames,
    is_text,
    name_frame,
    publish_frames,
    reply_frames,
    request_frames,
    schedule_frames,
)
from triomq.protocols.emqp.headers import NO_HEADERS, Headers
from triomq.protocols.emqp.jobs import MOST_IDS, id_lists
from triomq.protocols.emqp.queues import WeightedQueue
from triomq.protocols.emqp.reader import MOST_SLOTS, ReadingContext, reading_context
from triomq.protocols.emqp.runs import AnswerRun, RequestRun, read_answers, read_requests
from triomq.protocols.emqp.settings import Settings
from triomq.protocols.emqp.states import PEER_STALE, PEERS, Role, State

_REMEMBERED: Final = 1024
"""Bytes of an extension frame that is worth remembering; a traceback comes once."""


class PeerEngine(EMQPEngine):
    """A peer's side of the conversation with its broker; it begins with INFORM, where there is something to say.

    A client without capabilities says none, as released ones, and is open at once.

    Args:
        role: what the peer is.
        new_id: as for both sides.
        now: as for both sides.
        unix_time: as for both sides.
        settings: limits and times.
        queues: that a worker takes jobs from; none stand for the default one.
        about: returns what else a broker with extensions is told with INFORM, each time that it is said.
        outstanding: ids of requests that wait for an answer, which their owner keeps; a released router's notice looks
            like an answer, but for its place.
    """

    __slots__ = ("_about", "_inform_id", "_outstanding", "_queues", "_written", "role")
    _stale = PEER_STALE

    def __init__(
        self,
        role: Role,
        new_id: Callable[[], bytes],
        *,
        now: float,
        unix_time: float,
        settings: Settings | None = None,
        queues: tuple[WeightedQueue, ...] = (),
        about: Callable[[], Extension] = lambda: NO_EXTENSION,
        outstanding: Container[bytes] = (),
    ) -> None:
        settings = settings or Settings()
        super().__init__(PEERS[role], new_id, now, unix_time, settings)
        self.state = "open"
        self.role = role
        self._queues = queues
        self._about = about
        self._outstanding = outstanding
        self._inform_id = b""
        self._written: tuple[Extension | None, bytes | None] = None, None
        if role != "client" or settings.capabilities:
            self.state = "informing"
            self._timers.running = self._timers.informing = True
            self._inform()

    def _inform(self) -> None:
        """Say INFORM, under the same id if it was not answered."""
        self._inform_id = self._inform_id or self._new_id()
        about: bytes | None = None
        if self._settings.capabilities:  # whether the broker has some is not known yet
            about = encode_extension(msgspec.structs.replace(self._about(), capabilities=self._settings.capabilities))
            check_written(about, LONGEST_INFORM)
        dialect = self._settings.dialect
        self.outbox.put(inform_frames(self._inform_id, self.role, self._queues, about, dialect))

    @property
    def _patience(self) -> float:
        """Seconds that the broker may be silent; one with extensions goes on with heartbeats when we are leaving."""
        return self._settings.silence if self.state == "leaving" and self.is_extended else super()._patience

    def _inform_again(self) -> Event | None:
        """Repeat INFORM; a client goes on without, as with a broker that knows no clients who say it."""
        if self.role != "client":
            self._inform()
            return None
        self.state = self._states[self.state]["unanswered"]
        self._announced(NO_EXTENSION)
        self._timers.informing = self._timers.running = False
        return Opened(())

    def _reading_context(self) -> ReadingContext:
        return reading_context(False, self.is_extended, self._settings.max_message_size, LONGEST_PASSED_ON)

    def carries(self, message: bytes) -> bool:
        """Return whether a message can be sent; one that is too large the broker would drop."""
        return len(message) <= self._reading.max_message_size and (self.is_extended or is_text(message))

    def _misfit(self, message: bytes) -> str:
        if len(message) <= (most := self._settings.max_message_size):
            return super()._misfit(message)
        return f"the message has {len(message)} bytes; at most {most} are allowed (max_message_size)"

    def _extension(self, extension: Extension | None) -> bytes | None:
        """Return the frame; what is the same object as the last time, as for most jobs, is written once."""
        if extension is self._written[0] and self.is_extended:
            return self._written[1]
        frame = super()._extension(extension)
        if frame is not None:
            check_written(frame)
            if len(frame) <= _REMEMBERED:
                self._written = extension, frame
        return frame

    def receive_run(self, messages: Sequence[Sequence[bytes]], start: int) -> RequestRun | AnswerRun | None:
        """Take messages in a row that are alike, from a place on; none if the first of them is for ``receive``.

        They change no state, so that they may be received again.
        """
        if self.state != "open" or not self.is_extended:
            return None
        run: RequestRun | AnswerRun | None
        if self.role == "worker":
            run = read_requests(messages, start, self._reading)
        else:
            run = read_answers(messages, start, self._reading, self._inform_id)
        self._has_heard = self._has_heard or run is not None
        return run

    def _full_name(self, name: str, event: Event | None) -> str:
        if isinstance(event, Acknowledged):
            return "received ACK-of-INFORM" if event.request == self._inform_id else "received ACK-of-a-command"
        return name

    def _heard(self, event: Event | None, before: State) -> Event | None:
        if isinstance(event, Acknowledged):
            return event if event.request != self._inform_id else self._opened(event.extension, before)
        if isinstance(event, Replied):
            waiting = self._outstanding
            is_notice = not self.is_extended and event.message in waiting and event.request not in waiting
            return Dispatched(event.message) if is_notice else event
        if isinstance(event, RefusalReceived) and event.code == "inform" and before == "open" and self.is_extended:
            self.state = self._states[before]["unknown"]
            self._inform_id = b""
            self._timers.informing = True
            self._inform()
            return Unknown()
        if isinstance(event, PeerLeaving):
            self._timers.informing = False
            return event if before != "left" else None
        return event

    def _opened(self, extension: Extension, before: State) -> Opened | None:
        """Begin; an INFORM that was repeated is acknowledged more than once."""
        self._timers.informing = False
        self._announced(extension)
        self._timers.running = self.role != "client" or self.is_extended
        return Opened(self.capabilities) if before == "informing" else None

    def _heartbeat(self, unix_time: bytes) -> Frames:
        """Write HEARTBEAT so that a broker that has forgotten this peer can say so."""
        about = self._extension(Extension(capabilities=self._settings.capabilities))
        return command(b"HEARTBEAT", self._new_id(), unix_time, extension=about)

    # Commands: each returns the id of its message, which ACK and ERROR name

    def request(
        self,
        queue: str,
        message: bytes,
        headers: Headers = NO_HEADERS,
        extension: Extension | None = None,
        *,
        msgid: bytes = b"",
    ) -> bytes:
        """Ask for a job to be done; with ``reply_requested`` its answer will be ``Replied``.

        Args:
            queue: where it goes.
            message: what the worker gets.
            headers: what is asked for.
            extension: what else a broker with extensions is told.
            msgid: under which id; without one it has a new one. A broker with extensions knows a REQUEST that was sent
                again by its id.

        Raises:
            LocalProtocolError: the conversation is not open, or the broker cannot be sent such a message.
        """
        self._must_send("sent REQUEST", message)
        msgid = msgid or self._new_id()
        self.outbox.put(request_frames(msgid, queue, headers, message, self._extension(extension)))
        return msgid

    def publish(
        self, topic: str, message: bytes, headers: Headers = NO_HEADERS, extension: Extension | None = None
    ) -> bytes:
        """Publish a message to a topic; raises as ``request`` does."""
        self._must_send("sent PUBLISH", message)
        msgid = self._new_id()
        frame = self._extension(extension)
        self.outbox.put(publish_frames(msgid, topic, message, headers, frame, self._publish_dialect))
        return msgid

    def schedule(
        self,
        queue: str,
        message: bytes,
        headers: Headers = NO_HEADERS,
        *,
        interval: float = 0.0,
        cron: str = "",
        ends: bool = False,
        extension: Extension | None = None,
    ) -> bytes:
        """Have a job run at times, or end that (see ``schedule_frames``); raises as that and ``request`` do."""
        self._must_send("sent UNSCHEDULE" if ends else "sent SCHEDULE", message)
        msgid = self._new_id()
        self.outbox.put(
            schedule_frames(
                msgid, queue, headers, message, interval=interval, cron=cron, ends=ends,
                extension=self._extension(extension), dialect=self._settings.dialect,
            )
        )  # fmt: skip
        return msgid

    def subscribe(self, topic: str) -> bytes:
        """Ask for what is published to a topic.

        Raises:
            LocalProtocolError: the conversation is not open, or the broker has no extensions.
        """
        return self._subscribe("SUBSCRIBE", topic)

    def unsubscribe(self, topic: str) -> bytes:
        """Ask for no more of a topic; raises as ``subscribe`` does."""
        return self._subscribe("UNSUBSCRIBE", topic)

    def _subscribe(self, name: str, topic: str) -> bytes:
        self._must_send(f"sent {name}")
        if not self.is_extended:
            raise LocalProtocolError(f"the broker knows no {name}; subscribe with a SUB socket instead")
        return self._put(name.encode(), name_frame(topic))

    def ask(self, question: AdminCommand) -> bytes:
        """Ask what ``emq-cli`` asks; the answer is ``Replied``."""
        self._must_send(f"sent {question}")
        return self._put(question.encode())

    def ready(self, count: int = 1) -> None:
        """Offer slots for so many jobs more.

        Raises:
            LocalProtocolError: the count is none, or the conversation is not open.
        """
        if not 0 < count <= MOST_SLOTS:
            raise LocalProtocolError(f"ready for {count} jobs; it takes 1 to {MOST_SLOTS}")
        if not self._may_send("sent READY"):
            return
        if self.is_extended and count > 1:
            self._put(b"READY", b"%d" % count)
        else:
            for _ in range(count):
                self._put(b"READY")

    def reply(self, request: bytes, message: bytes, extension: Extension | None = None) -> None:
        """Answer a request.

        Raises:
            LocalProtocolError: the broker cannot be sent such a message.
        """
        if self._may_send("sent REPLY", message):
            frame = self._extension(extension)
            self.outbox.put(reply_frames(self._new_id(), request, message, frame, self._settings.dialect))

    # Commands of ours

    def _must_send_extended(self, name: str) -> None:
        self._must_send(f"sent {name}")
        if not self.is_extended:
            raise LocalProtocolError(f"the broker knows no {name}: it has not announced the capability jobs")

    def progress(self, request: bytes, message: bytes, extension: Extension) -> bool:
        """Say how far a job has come, or, as the reader of its stream, how many items were taken.

        Args:
            request: the job's id.
            message: a worker's value, or item; empty of a reader.
            extension: the ``attempt``, and the ``number`` of the value or the ``item``.

        Returns:
            Whether the broker is told; one without extensions is not, nor one that does not know this worker yet.

        Raises:
            LocalProtocolError: the broker cannot be sent such a message.
        """
        if not self.is_extended or not self._may_send("sent PROGRESS", message):
            return False
        self._put(b"PROGRESS", request, message, extension=extension)
        return True

    def cancel(self, request: bytes, extension: Extension = NO_EXTENSION) -> bytes:
        """Ask for a job to be ended; it is acknowledged when that is noted, or refused as ``unknown``.

        Args:
            request: the job's id.
            extension: ``grace`` and ``tree``.

        Raises:
            LocalProtocolError: the conversation is not open, or the broker has no extensions.
        """
        self._must_send_extended("CANCEL")
        return self._put(b"CANCEL", request, b"", extension=extension)

    def give_back(self, requests: Sequence[bytes]) -> None:
        """Return jobs that were not begun; offer slots again with ``ready``.

        Raises:
            LocalProtocolError: the broker has no extensions, or would not hear it.
        """
        self._must_send_extended("RETURN")
        for ids in id_lists(requests):
            self._put(b"RETURN", ids)

    def ask_states(self, requests: Sequence[bytes], extension: Extension = NO_EXTENSION) -> bytes:
        """Ask what has become of jobs; it is acknowledged when all of them were reported.

        Args:
            requests: the ids of the jobs, at most ``MOST_IDS``.
            extension: ``follow`` and ``result``.

        Raises:
            LocalProtocolError: there are too many or none, the conversation is not open, or the broker has no
                extensions.
        """
        self._must_send_extended("STATE")
        if not 0 < len(requests) <= MOST_IDS:
            raise LocalProtocolError(f"states of {len(requests)} jobs; it takes 1 to {MOST_IDS} at a time")
        (ids,) = id_lists(requests)
        return self._put(b"STATE", ids, b"", extension=extension)
