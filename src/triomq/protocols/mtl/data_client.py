"""A client's side of a data flow."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final

from triomq.protocols.mtl.data_engine import MTLDataEngine, is_confirm, is_content
from triomq.protocols.mtl.events import ConfirmModel, DataClientEvent, FlowDirection, ResponseReceived
from triomq.protocols.mtl.headers import (
    CONTENT,
    DISMISS,
    LEASE,
    SUMMON,
    numbered_text_frames,
    pack_numbered,
    read_code,
    read_numbered_text,
    read_sequence,
    require_sequence,
)
from triomq.protocols.mtl.properties import InvalidContent
from triomq.protocols.mtl.requests import WireFault
from triomq.protocols.mtl.runs import ConfirmRun, ContentRun
from triomq.protocols.mtl.settings import MTLSettings
from triomq.protocols.mtl.states import DATA_CLIENT

_UNCHECKED: Final = -1


class MTLDataClient(MTLDataEngine[DataClientEvent]):
    """A client's side of a data flow; see ``MTLDataEngine``. Commands and contents have their numbers from one counter.

    Args:
        direction: Of the lease that will be claimed.
        confirm: Whether contents are confirmed.
        now: The present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: Limits and times.
        next_sequence: The first number: a writer's go on when it connects again.
    """

    __slots__ = ("_claim", "_direction")

    def __init__(
        self,
        direction: FlowDirection,
        *,
        confirm: ConfirmModel,
        now: float,
        settings: MTLSettings | None = None,
        next_sequence: int = 1,
    ) -> None:
        super().__init__(DATA_CLIENT, now, settings)
        self.confirm_model = confirm
        self.next_sequence = require_sequence(next_sequence, 1)
        self._direction = direction
        self._claim = 0  # the number of the claim that is not answered

    # What comes

    def receive_run(self, messages: Sequence[Sequence[bytes]], start: int) -> ContentRun | ConfirmRun | None:
        """Take messages in a row that are alike, from a place on; none if the first of them is for ``receive``."""
        frames = messages[start]
        run: ContentRun | ConfirmRun | None = None
        if self.state == "reading" and is_content(frames):
            try:
                run = self._read_contents(messages, start, _UNCHECKED)
            except (WireFault, InvalidContent):
                return None
        elif self.state == "writing" and is_confirm(frames):
            run = self._read_confirm_run(messages, start)
        self._has_heard = self._has_heard or run is not None
        return run

    def _read_response(self, header: bytes, body: bytes) -> ResponseReceived:
        if len(header) != 9:
            raise WireFault("header")
        sequence, code = read_sequence(header), read_code(body)
        self._require("Response")
        if self._claim and sequence == self._claim:
            self._claim = 0
            if code != 200:
                self._go("refused")
            elif self.state == "claiming":
                self._go(f"granted {self._direction}")
        return ResponseReceived(sequence, code)

    def _read_content(self, header: bytes, body: bytes) -> ContentRun:
        if not read_sequence(header):
            raise WireFault("sequence")
        try:
            run = self._read_contents([(header, body)], 0, _UNCHECKED)
        except InvalidContent:
            raise WireFault("table") from None
        self._require("Content")
        if run is None:
            raise WireFault("too-long")
        return run

    def _read_turn(self, header: bytes, _: bytes) -> None:
        """Read what only clients send."""
        read_numbered_text(header)
        raise WireFault("unasked")

    _BY_NAME: ClassVar[Mapping[str, Callable[..., DataClientEvent | None]]] = {
        "Lease": _read_turn,
        "Response": _read_response,
        "Summon": _read_turn,
        "Dismiss": _read_turn,
        "Content": _read_content,
        "Confirm": MTLDataEngine._read_settlement,
        "Reject": MTLDataEngine._read_settlement,
    }

    @property
    def _readers(self) -> Mapping[str, Callable[..., DataClientEvent | None]]:
        return self._BY_NAME

    # What goes

    def claim(self, lease: str) -> int:
        """Claim a lease; return the number that the Response will have.

        Raises:
            LocalProtocolError: Not in this state; also of all that follows here.
        """
        self._claim = self._ask("Lease", LEASE, lease)
        self._go("sent Lease")
        return self._claim

    def summon(self, resource: str) -> int:
        """Ask for content of a resource, whose name may be empty if the lease has exactly one; return the number."""
        return self._ask("Summon", SUMMON, resource)

    def dismiss(self, resource: str) -> int:
        """Ask for no more content of a resource; return the number."""
        return self._ask("Dismiss", DISMISS, resource)

    def _ask(self, name: str, kind: int, text: str) -> int:
        self._must_send(name)
        sequence = self.next_sequence
        self._put(numbered_text_frames(kind, sequence, text))
        self.next_sequence += 1
        return sequence

    def send_again(self, contents: Iterable[tuple[int, bytes, bytes]]) -> None:
        """Send contents again, under the numbers that they had on another flow of the same lease.

        Args:
            contents: The number of each, rising, its ``content_suffix`` and its body.
        """
        self._must_send("Content")
        for sequence, suffix, body in contents:
            self._put((pack_numbered(CONTENT, sequence) + suffix, body))

    def confirm(self, sequence: int, *, multiple: bool = False) -> None:
        """Say that a content is safe, or all up to it."""
        self._must_send("Confirm")
        self._settle(sequence, multiple=multiple, recycle=None)

    def reject(self, sequence: int, *, multiple: bool = False, recycle: bool = False) -> None:
        """Say that a content, or all up to it, are not taken, and whether they may go to another reader."""
        self._must_send("Reject")
        self._settle(sequence, multiple=multiple, recycle=recycle)
