"""The client's side of a tap connection."""

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.tap.codes import PeerError
from triomq.protocols.tap.engine import TapEngine
from triomq.protocols.tap.events import ClientEvent
from triomq.protocols.tap.frames import LENGTH, frame, frame_with_chunks
from triomq.protocols.tap.messages import (
    ANSWERED_BY,
    VERSION,
    AbortAsked,
    AckAsked,
    ChallengeAnswered,
    ClientGreeting,
    ClientMessage,
    CommitAsked,
    FetchAsked,
    GroupPosition,
    LeaseAsked,
    ListAsked,
    LoginRequested,
    OffsetsAsked,
    PingAsked,
    RequestRefused,
    ServerClosing,
    ServerGreeting,
    ServerMessage,
    StageAsked,
    TapMessage,
    TapRequest,
    Welcomed,
)
from triomq.protocols.tap.settings import Settings
from triomq.protocols.tap.states import CLIENT

_DECODER: Final = msgspec.msgpack.Decoder(ServerMessage)
_decode: Final = msgspec.msgpack.Decoder(ClientMessage).decode
_NUMBERS: Final = 1 << 32


class TapClientEngine(TapEngine[ClientEvent]):
    """A connection, as its client sees it; it begins with a greeting.

    ``ServerGreeting`` is to be answered by ``log_in``, ``LoginChallenged`` by ``respond``. Each command that asks
    something returns the number of its request; the answers, which are events, come in the same order.

    Args:
        now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: limits and times.
    """

    __slots__ = ("_largest", "_last", "_unanswered")

    def __init__(self, *, now: float, settings: Settings | None = None) -> None:
        super().__init__("client", CLIENT, _DECODER, now, settings)
        self._unanswered: deque[tuple[int, type[TapMessage]]] = deque()
        self._last = 0
        self._largest = 0
        self.outbox.put(frame(ClientGreeting("tap", VERSION, self._settings.product)))

    @property
    def largest_frame(self) -> int:
        """Bytes of the largest frame that the server takes; 0 until it has let us in."""
        return self._largest

    def _received(self, message: TapMessage) -> None:
        if isinstance(message, ServerGreeting):
            if message.version != VERSION:
                raise PeerError("MALFORMED", f"the server speaks version {message.version}, and we speak {VERSION}")
        elif isinstance(message, Welcomed):
            self._open()
            self._largest = message.max_frame
        elif isinstance(message, TapRequest):
            self._check_answer(message)
        self._events.append(message)  # type: ignore[arg-type]  # the decoder reads none but events
        if isinstance(message, ServerClosing):
            self._finish()

    def receive_data(self, data: bytes) -> None:
        """Read bytes from the peer; ``b""`` means that it will send no more."""
        if not data and self.state in self._holding:
            self._read_last()
        super().receive_data(data)

    def _read_last(self) -> None:
        """Read why the server has ended the connection before we have taken our turn, if it has said so."""
        try:
            frame = self._reader.next()
            message = None if frame is None else self._decode(frame)
        except PeerError:
            return
        if isinstance(message, ServerClosing):
            self._take(message)

    def _check_answer(self, answer: TapRequest) -> None:
        number, kind = self._unanswered[0] if self._unanswered else (None, None)
        if number != answer.number or (kind is not type(answer) and not isinstance(answer, RequestRefused)):
            raise PeerError(
                "MALFORMED",
                f"{answer.wire_name} answers request {answer.number}; the next one to be answered is {number}",
            )
        self._unanswered.popleft()

    # Commands: the handshake

    def log_in(self, mechanism: str, response: bytes, domain: str = "") -> None:
        """Choose a mechanism, and give its first response.

        Args:
            mechanism: one of those that the server's greeting has.
            response: the first response; empty for a mechanism that wants to be asked.
            domain: where to work; empty is the server's choice.
        """
        if self._may_send("LOGIN"):
            self.outbox.put(frame(LoginRequested(mechanism, response, domain)))
            self._read()

    def respond(self, response: bytes) -> None:
        """Answer ``LoginChallenged``."""
        if self._may_send("RESPONSE"):
            self.outbox.put(frame(ChallengeAnswered(response)))
            self._read()

    # Commands: requests, as their messages have them (``messages.py``); each returns its number, 0 if it is too late

    def ping(self) -> int:
        """Ask whether the server is there; ``DoneAnswered`` will come."""
        return self._ask(PingAsked(self._next))

    def streams(self) -> int:
        """Ask which streams there are; ``StreamsAnswered`` will come."""
        return self._ask(ListAsked(self._next))

    def offsets(self, stream: str, group: str = "", since: int | None = None) -> int:
        """Ask for the partitions of a stream, and where a group or a time is; ``BoundsAnswered`` will come."""
        return self._ask(OffsetsAsked(self._next, stream, group, since))

    def fetch(
        self,
        stream: str,
        partition: int,
        identity: int | None,
        first: int,
        stop: int | None = None,
        *,
        most_bytes: int,
        wait: int = 0,
        group: str = "",
    ) -> int:
        """Ask for records, as ``FetchAsked`` has it; ``RecordsAnswered`` will come."""
        return self._ask(FetchAsked(self._next, stream, partition, identity, first, stop, most_bytes, wait, group))

    def ack(self, stream: str, group: str, positions: Mapping[int, GroupPosition]) -> int:
        """Set where a group is; ``DoneAnswered`` will come."""
        return self._ask(AckAsked(self._next, stream, group, dict(positions)))

    def lease(self, queue: str, group: str, most_records: int, most_bytes: int) -> int:
        """Move messages of a queue into a group's ledger; ``LeasedAnswered`` will come."""
        return self._ask(LeaseAsked(self._next, queue, group, most_records, most_bytes))

    def stage(
        self,
        target: str,
        writer: str,
        batch: int,
        part: int,
        attempt: int,
        chunk: bytes | memoryview,
        *,
        is_sink: bool = False,
    ) -> int:
        """Stage a chunk of records; ``DoneAnswered`` will come.

        Raises:
            LocalProtocolError: the frame would be larger than the server takes; or as with all commands.
        """
        request = StageAsked(self._next, target, is_sink, writer, batch, part, attempt, b"")
        check(request)
        return self._put(request, *frame_with_chunks(request, [chunk]))

    def commit(
        self, target: str, writer: str, batch: int, attempts: Mapping[int, int], *, is_sink: bool = False
    ) -> int:
        """Publish what was staged; ``DoneAnswered`` will come."""
        return self._ask(CommitAsked(self._next, target, is_sink, writer, batch, dict(attempts)))

    def abort(
        self,
        target: str,
        writer: str,
        batch: int,
        part: int | None = None,
        attempt: int | None = None,
        *,
        is_sink: bool = False,
    ) -> int:
        """Drop what was staged; ``DoneAnswered`` will come."""
        return self._ask(AbortAsked(self._next, target, is_sink, writer, batch, part, attempt))

    @property
    def _next(self) -> int:
        return self._last % (_NUMBERS - 1) + 1  # 0 is not used, so that it can stand for none

    def _ask(self, request: TapRequest) -> int:
        check(request)
        return self._put(request, frame(request))

    def _put(self, request: TapRequest, *pieces: bytes | memoryview) -> int:
        if not self._may_send(request.wire_name):
            return 0
        size = sum(map(len, pieces)) - LENGTH
        if size > self._largest:
            raise LocalProtocolError(
                f"{request.wire_name} has {size} bytes; the server takes {self._largest} (WELCOME)"
            )
        self._last = request.number
        self._unanswered.append((request.number, ANSWERED_BY[type(request)]))
        self.outbox.put(*pieces)
        return request.number

    def _finish(self) -> None:
        super()._finish()
        self._unanswered.clear()


def check(request: TapRequest) -> None:
    """Read a request as a server will: a field that does not fit would end the connection there.

    Raises:
        LocalProtocolError: a server would not read it.
    """
    try:
        _decode(frame(request)[LENGTH:])
    except (msgspec.DecodeError, UnicodeError, OverflowError) as error:
        raise LocalProtocolError(f"{request.wire_name} cannot be sent: {error}") from None
