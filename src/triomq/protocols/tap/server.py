"""The server's side of a tap connection."""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.tap.codes import LONGEST_TEXT, CloseCode, PeerError, RefusalCode
from triomq.protocols.tap.engine import TapEngine
from triomq.protocols.tap.events import ServerEvent
from triomq.protocols.tap.frames import frame, frame_with_chunks, head_of
from triomq.protocols.tap.messages import (
    ANSWERED_BY,
    VERSION,
    Answer,
    BoundsAnswered,
    ClientGreeting,
    ClientMessage,
    DoneAnswered,
    LeasedAnswered,
    LoginChallenged,
    PartitionBounds,
    RecordsAnswered,
    RequestRefused,
    ServerClosing,
    ServerGreeting,
    StreamsAnswered,
    TapMessage,
    TapRequest,
    Welcomed,
)
from triomq.protocols.tap.settings import Settings
from triomq.protocols.tap.states import SERVER

_NOTHING: Final = memoryview(b"")
_DECODER: Final = msgspec.msgpack.Decoder(ClientMessage)


class TapServerEngine(TapEngine[ServerEvent]):
    """One client's connection, as the server sees it.

    ``LoginRequested`` and ``ChallengeAnswered`` are to be answered by ``challenge``, ``welcome`` or ``close``, every
    request by ``done``, ``bounds``, ``records``, ``streams``, ``leased`` or ``refuse``, in the order in which they
    came.

    Args:
        now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: limits and times.
    """

    __slots__ = ("_unanswered",)

    def __init__(self, *, now: float, settings: Settings | None = None) -> None:
        super().__init__("server", SERVER, _DECODER, now, settings)
        self._unanswered: deque[tuple[int, type[TapMessage]]] = deque()

    def _received(self, message: TapMessage) -> None:
        if isinstance(message, ClientGreeting):
            # A later version than ours is the client's highest, not its only one: it closes if it cannot speak ours.
            settings = self._settings
            self.outbox.put(frame(ServerGreeting("tap", VERSION, settings.product, settings.mechanisms)))
            return
        if isinstance(message, TapRequest):
            self._unanswered.append((message.number, ANSWERED_BY[type(message)]))
        self._events.append(message)  # type: ignore[arg-type]  # the state has none but events from here on

    # Commands: the handshake

    def challenge(self, challenge: bytes) -> None:
        """Ask for one more response, which will be ``ChallengeAnswered``."""
        if self._may_send("CHALLENGE"):
            self.outbox.put(frame(LoginChallenged(challenge)))
            self._read()

    def welcome(self) -> None:
        """Let the client in: requests may come."""
        if self._may_send("WELCOME"):
            self._open()
            self.outbox.put(frame(Welcomed(self._settings.max_frame)))
            self._read()

    # Commands: answers

    def done(self, number: int) -> None:
        """Answer PING, ACK, STAGE, COMMIT or ABORT: it is done.

        Raises:
            LocalProtocolError: this request is not the next one to be answered, or otherwise; as with all answers.
        """
        if self._may_answer(DoneAnswered(number)):
            self.outbox.put(frame(DoneAnswered(number)))

    def bounds(self, number: int, partitions: Sequence[PartitionBounds]) -> None:
        """Answer OFFSETS."""
        answer = BoundsAnswered(number, tuple(partitions))
        if self._may_answer(answer):
            self.outbox.put(frame(answer))

    def streams(self, number: int, names: Sequence[str]) -> None:
        """Answer LIST."""
        answer = StreamsAnswered(number, tuple(names))
        if self._may_answer(answer):
            self.outbox.put(frame(answer))

    def leased(self, number: int, bounds: PartitionBounds, ready: int) -> None:
        """Answer LEASE."""
        answer = LeasedAnswered(number, bounds, ready)
        if self._may_answer(answer):
            self.outbox.put(frame(answer))

    def records(self, number: int, bounds: PartitionBounds, chunks: Sequence[bytes | memoryview]) -> None:
        """Answer FETCH with whole chunks, which must not change; none if there are no such records yet."""
        answer = RecordsAnswered(number, bounds, _NOTHING)
        if self._may_answer(answer):
            self.outbox.put(*frame_with_chunks(answer, chunks))

    def records_head(self, number: int, bounds: PartitionBounds) -> bytes:
        """Return the answer to FETCH for somebody else, who writes it to the socket; until then nothing may be sent.

        When it is written ``records_written`` is to be called; if it cannot be, the request is still to be answered.

        Returns:
            The message without its last field. A length of all goes before it, and MessagePack's ``bin 32`` with the
            chunks behind it.
        """
        return head_of(RecordsAnswered(number, bounds, _NOTHING))

    def records_written(self, number: int, bounds: PartitionBounds) -> None:
        """Count a FETCH as answered by somebody else; see ``records_head``."""
        self._may_answer(RecordsAnswered(number, bounds, _NOTHING))

    def refuse(self, number: int, code: RefusalCode, text: str, bounds: PartitionBounds | None = None) -> None:
        """Answer any request by why it is refused."""
        answer = RequestRefused(number, code, text[:LONGEST_TEXT], bounds)
        if self._may_answer(answer):
            self.outbox.put(frame(answer))

    def _may_answer(self, answer: Answer) -> bool:
        if not self._may_send(answer.wire_name):
            return False
        number, kind = self._unanswered[0] if self._unanswered else (None, None)
        if number != answer.number or (kind is not type(answer) and not isinstance(answer, RequestRefused)):
            raise LocalProtocolError(f"request {number} is to be answered by {kind}, not {answer.number} by {answer}")
        self._unanswered.popleft()
        return True

    # The end

    def close(self, code: CloseCode, text: str) -> None:
        """Say why the connection ends, and end."""
        if self.state != "closed":
            self._say_goodbye(code, text)
            self._end("sent CLOSE")

    def _fail(self, error: PeerError) -> None:
        self._say_goodbye(error.code, error.text)
        super()._fail(error)

    def _say_goodbye(self, code: CloseCode, text: str) -> None:
        self.outbox.put(frame(ServerClosing(code, text[:LONGEST_TEXT])))

    def _finish(self) -> None:
        super()._finish()
        self._unanswered.clear()
