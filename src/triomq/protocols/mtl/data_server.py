"""A server's side of the data flow with one peer."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, Final

from triomq.errors import LocalProtocolError
from triomq.protocols.mtl.data_engine import MTLDataEngine, is_confirm, is_content
from triomq.protocols.mtl.events import (
    ConfirmModel,
    DataServerEvent,
    Dismissed,
    FlowDirection,
    LeaseClaimed,
    Summoned,
)
from triomq.protocols.mtl.headers import read_code, read_numbered_text, read_sequence, response_frames
from triomq.protocols.mtl.log import WriterLog
from triomq.protocols.mtl.properties import InvalidContent
from triomq.protocols.mtl.requests import WireFault
from triomq.protocols.mtl.runs import ConfirmRun, ContentRun
from triomq.protocols.mtl.settings import MTLSettings
from triomq.protocols.mtl.states import DATA_SERVER

_UNCHECKED: Final = -1

_FEW: Final = 8
"""Resources that are looked through: a set of one takes 216 bytes."""


class MTLDataServer(MTLDataEngine[DataServerEvent]):
    """A server's side of the data flow with one peer; see ``MTLDataEngine``.

    Args:
        now: The present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: Limits and times.
    """

    __slots__ = ("_lease", "_log", "_resources", "_summoned", "_up_to")

    def __init__(self, *, now: float, settings: MTLSettings | None = None) -> None:
        super().__init__(DATA_SERVER, now, settings)
        self._lease = ""
        self._resources: Collection[str] = ()
        self._summoned: list[str] = []
        self._log: WriterLog | None = None  # of a writer whose contents are confirmed
        self._up_to = 0  # the highest number that was read, while contents are confirmed

    # What comes

    def receive_run(self, messages: Sequence[Sequence[bytes]], start: int) -> ContentRun | ConfirmRun | None:
        """Take messages in a row that are alike, from a place on; none if the first of them is for ``receive``.

        Contents that are confirmed count as read from now on; see ``accept`` and ``put_back``.
        """
        frames = messages[start]
        run: ContentRun | ConfirmRun | None = None
        if self.state == "writing" and is_content(frames) and len(frames[0]) <= self._settings.longest_header:
            try:
                # The log may have gone on: another flow of the lease ends when it comes to it.
                above = _UNCHECKED if self._log is None else max(self._up_to, self._log.last)
                run = self._read_contents(messages, start, above)
            except (WireFault, InvalidContent):
                return None
            if run is not None and self._log is not None:
                self._up_to = run.sequences[-1]
        elif self.state == "reading" and is_confirm(frames):
            run = self._read_confirm_run(messages, start)
        self._has_heard = self._has_heard or run is not None
        return run

    def _read_lease(self, header: bytes, _: bytes) -> LeaseClaimed | None:
        sequence, lease = read_numbered_text(header)
        if self.state == "unleased":
            return LeaseClaimed(sequence, lease)
        self.respond(sequence, 200 if lease == self._lease else 403)
        return None

    def _read_summon(self, header: bytes, _: bytes) -> Summoned | None:
        sequence, name = read_numbered_text(header)
        resource = self._resource_of(name)
        if not self._may_turn(sequence, "Summon"):
            return None
        # "The client MAY NOT summon the same resource twice without an intervening dismiss."
        if not resource or resource in self._summoned or len(self._summoned) >= self._settings.most_summons:
            self.respond(sequence, 400)
            return None
        return Summoned(sequence, resource)

    def _read_dismiss(self, header: bytes, _: bytes) -> Dismissed | None:
        sequence, name = read_numbered_text(header)
        resource = self._resource_of(name)
        if not self._may_turn(sequence, "Dismiss"):
            return None
        if resource not in self._summoned:
            self.respond(sequence, 400)
            return None
        return Dismissed(sequence, resource)

    def _may_turn(self, sequence: int, name: str) -> bool:
        """Answer a command that only readers have a use for, unless it has its place."""
        if f"received {name}" in self._states[self.state]:
            return True
        self.respond(sequence, 403 if self.state == "unleased" else 400)
        return False

    def _read_content(self, header: bytes, body: bytes) -> ContentRun | None:
        """Read a Content that is not like the one before it, or repeated, or wrong."""
        sequence = read_sequence(header)
        if not sequence:
            raise WireFault("sequence")
        code = self._fault_of(header, body)
        if code:
            self._refuse(sequence, code, recycle=False)
            return None
        if self._log is None:
            return self._read_contents([(header, body)], 0, _UNCHECKED)
        if self._is_repeated(sequence, self._log):
            return None
        self._up_to = max(self._up_to, sequence)
        return self._read_contents([(header, body)], 0, sequence - 1)

    def _fault_of(self, header: bytes, body: bytes) -> int:
        """Return the code that a Content is answered with; 0 if nothing is wrong with it.

        Raises:
            WireFault: It is ill-formed.
        """
        fault = 0
        if len(header) > self._settings.longest_header or len(body) > self._settings.max_message_size:
            fault = 413
        if len(header) <= self._settings.longest_header:
            try:
                name = self._known_kinds().find(header).resource
            except InvalidContent as invalid:
                fault = invalid.code
            else:
                if self._resource_of(name) is None:
                    fault = 403 if name else 400
        return fault if self.state == "writing" else 403

    def _is_repeated(self, sequence: int, log: WriterLog) -> bool:
        """Answer a content that was answered before; return whether it has been here at all."""
        fate = log.fate(sequence)
        if fate == "new":
            return log.last < sequence <= self._up_to  # read in this turn, and not accepted yet
        if fate == "confirmed":
            self._settle(sequence, multiple=False, recycle=None)
        elif fate == "rejected":
            self._settle(sequence, multiple=False, recycle=log.may_recycle(sequence))
        return True

    def _refuse(self, sequence: int, code: int, *, recycle: bool) -> None:
        """Say that a Content is not taken: by Reject where contents are confirmed, otherwise by Response."""
        log = self._log
        if log is not None and log.fate(sequence) != "new":
            self._is_repeated(sequence, log)
        elif log is not None:
            log.reject(sequence, recycle=recycle)
            self._up_to = max(self._up_to, sequence)
            self._settle(sequence, multiple=False, recycle=recycle)
        elif self.state == "reading" and self.confirm_model == "full":
            self._settle(sequence, multiple=False, recycle=False)
        else:
            self.respond(sequence, code)

    @property
    def _most_fields(self) -> int:
        return self._settings.most_fields

    def _read_response(self, header: bytes, body: bytes) -> None:
        if len(header) != 9:
            raise WireFault("header")
        read_code(body)
        raise WireFault("unasked")

    def _resource_of(self, name: str) -> str | None:
        """Return the resource that is meant: "if [there is] more than one resource, then the name is required"."""
        if not name:
            return next(iter(self._resources)) if len(self._resources) == 1 else None
        return name if not self._resources or name in self._resources else None

    _BY_NAME: ClassVar[Mapping[str, Callable[..., DataServerEvent | None]]] = {
        "Lease": _read_lease,
        "Response": _read_response,
        "Summon": _read_summon,
        "Dismiss": _read_dismiss,
        "Content": _read_content,
        "Confirm": MTLDataEngine._read_settlement,
        "Reject": MTLDataEngine._read_settlement,
    }

    @property
    def _readers(self) -> Mapping[str, Callable[..., DataServerEvent | None]]:
        return self._BY_NAME

    # Answers

    def respond(self, sequence: int, code: int) -> None:
        """Answer a command by its number; once the flow has ended nobody hears it."""
        if "sent Response" in self._states[self.state]:
            self._put(response_frames(sequence, code))

    def grant(
        self,
        claim: LeaseClaimed,
        direction: FlowDirection,
        resources: Collection[str],
        *,
        confirm: ConfirmModel,
        log: WriterLog | None = None,
    ) -> None:
        """Say that a claim is granted (200).

        Args:
            claim: What was received.
            direction: Of the lease, and so with all that follows.
            resources: Empty for all.
            confirm: Whether contents are confirmed.
            log: A writer's, which goes on from one flow to another; a new one if there is none.

        Raises:
            LocalProtocolError: There is a lease already.
        """
        if self.state != "unleased":
            raise LocalProtocolError(f"a lease was granted already: the flow is {self.state}")
        self.respond(claim.sequence, 200)
        self._go(f"granted {direction}")
        self._lease = claim.lease
        self._resources = resources if len(resources) <= _FEW else frozenset(resources)
        self.confirm_model = confirm
        if direction == "writer" and confirm == "full":
            self._log = log = log or WriterLog()
            self._up_to = log.last
            # Behind them no Confirm with `multiple` can be taken for them.
            for sequence, recycle in log.rejected:
                self._settle(sequence, multiple=False, recycle=recycle)

    def answer(self, event: Summoned | Dismissed, code: int = 200) -> None:
        """Answer Summon, whose content may be sent from now on, or Dismiss, behind the last content of its resource."""
        self.respond(event.sequence, code)
        if code != 200 or self.state != "reading":
            return
        self.end_resource(event.resource)
        if isinstance(event, Summoned):
            self._summoned.append(event.resource)

    def end_resource(self, resource: str) -> None:
        """Let a resource count as not summoned, since it has gone."""
        if resource in self._summoned:
            self._summoned.remove(resource)

    def accept(self, sequences: Sequence[int]) -> None:
        """Note that contents are taken; ``confirm_contents`` or ``reject_contents`` follows."""
        if self._log is not None:
            self._log.take(sequences)

    def put_back(self) -> None:
        """Forget that contents were read that were not accepted: the same messages will be received again."""
        self._up_to = 0 if self._log is None else self._log.last

    def confirm_contents(self, sequences: Sequence[int]) -> None:
        """Say that contents are safe, in as few messages as possible; no others are meant, whatever their numbers."""
        if self.state != "writing" or self._log is None:
            return
        for sequence, multiple in self._log.confirm(sequences):
            self._settle(sequence, multiple=multiple, recycle=None)

    def reject_contents(self, sequences: Sequence[int], *, recycle: bool) -> None:
        """Say that contents are not taken.

        Args:
            sequences: Their numbers.
            recycle: Whether the writer may try them again.
        """
        if self.state != "writing" or self._log is None:
            return
        for sequence in sequences:
            self._log.reject(sequence, recycle=recycle)
            self._settle(sequence, multiple=False, recycle=recycle)

    def refuse_content(self, sequence: int, code: int, *, recycle: bool = False) -> None:
        """Say that a content is not taken, which was not accepted; one that was here before is answered as then.

        Args:
            sequence: Its number.
            code: Of the Response, where contents are not confirmed: 400, 403, 404, 413 or 503.
            recycle: Whether the writer may try it again, where they are.
        """
        if self.state == "writing" and sequence:
            self._refuse(sequence, code, recycle=recycle)

    def revoke(self) -> None:
        """Take the lease back: whatever comes is refused (403), and Pings are not answered."""
        self._go("revoked")
        self._summoned.clear()
        self._lease = ""
        self._log = None
