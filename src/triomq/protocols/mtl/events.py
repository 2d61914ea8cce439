"""What engines report: frozen Structs, one for a message at most; contents and confirms come as runs (``runs.py``)."""

from typing import Any, Literal, TypeAlias

import msgspec

from triomq.protocols.mtl.codes import FaultReason
from triomq.protocols.mtl.runs import ConfirmRun, ContentRun

FlowDirection: TypeAlias = Literal["reader", "writer"]
"""Whether a client reads or writes."""

ConfirmModel: TypeAlias = Literal["none", "full"]


class IllFormed(msgspec.Struct, frozen=True, gc=False):
    """A message was dropped without an answer, as the specification wants it; see ``FAULT_REASONS``."""

    reason: FaultReason


# A control session, as a server sees it


class OpenReceived(msgspec.Struct, frozen=True, gc=False):
    """A client wants to work in a virtual host; whatever it had in this session is gone.

    Answer with ``ready``, ``require_login`` or ``refuse``.
    """

    virtual_host: str


class AuthorizeReceived(msgspec.Struct, frozen=True, gc=False):
    """A client shows who it is; answer with ``ready``, ``challenge``, ``require_login`` or ``refuse``.

    Args:
        mechanism: One of those that are offered, as they are spelt there.
        response: None where the client has given none, which is not the same as an empty one.
        begins: Whether a dialogue begins with it.
    """

    mechanism: str
    response: bytes | None
    begins: bool

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return f"AuthorizeReceived({self.mechanism!r}, …, begins={self.begins})"


class ProfileChosen(msgspec.Struct, frozen=True, gc=False):
    """A client has chosen one of the profiles that ``ready`` has named; answer with ``done`` or ``refuse``."""

    profile: str


class DataLeaseAsked(msgspec.Struct, frozen=True, gc=False):
    """A client wants a data flow; answer with ``grant_lease`` or ``refuse``.

    Args:
        direction: Whether it will read or write.
        resources: Which ones, without repetitions; empty for all.
        confirm: Whether content is confirmed.
        prefetch: How many contents it wants to have unconfirmed at most; 0 if it does not say.
        lease: The lease that it has had, and wants to have again; empty for a new one.
    """

    direction: FlowDirection
    resources: tuple[str, ...]
    confirm: ConfirmModel
    prefetch: int
    lease: str = ""

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return f"DataLeaseAsked({self.direction!r}, {self.resources!r}, {self.confirm!r}, {self.prefetch}, …)"


class LeaseReleased(msgspec.Struct, frozen=True, gc=False):
    """A client needs a lease no longer; answer with ``done``, also if there is none."""

    lease: str

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return "LeaseReleased(…)"


class CommandReceived(msgspec.Struct, frozen=True):
    """A client calls a method of its profile; answer with ``done`` or ``refuse``.

    Args:
        command: Class and method in lower case, such as ``queue.create``.
        arguments: What stands in the body.
    """

    command: str
    arguments: dict[str, Any]


class CloseReceived(msgspec.Struct, frozen=True, gc=False):
    """A client ends its session and its leases; answer with ``done``."""


# A control session, as a client sees it


class SessionReady(msgspec.Struct, frozen=True, gc=False):
    """201: choose one of these profiles."""

    profiles: tuple[str, ...]


class LoginRequired(msgspec.Struct, frozen=True, gc=False):
    """401: show who you are, by one of these mechanisms. Where it comes unasked, the server may know no session."""

    mechanisms: tuple[str, ...]


class SASLChallenged(msgspec.Struct, frozen=True, gc=False):
    """402: one more response is wanted."""

    mechanism: str
    challenge: bytes

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return f"SASLChallenged({self.mechanism!r}, …)"


class DataLeased(msgspec.Struct, frozen=True, gc=False):
    """202: connect a data flow, and claim the lease there.

    Args:
        lease: The token.
        port: On the host of the control flow; 0 for the very endpoint of that.
        endpoint: Where to connect in place of that, if it is not empty.
    """

    lease: str
    port: int
    endpoint: str

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return f"DataLeased(…, {self.port}, {self.endpoint!r})"


class ReplyReceived(msgspec.Struct, frozen=True):
    """Any other reply: 200, or a refusal.

    Args:
        code: The only part that means something to a program.
        reason: What a server of this project says about a refusal.
        fields: All that stands in the body.
    """

    code: int
    reason: str
    fields: dict[str, Any]


# A data flow, as a server sees it


class LeaseClaimed(msgspec.Struct, frozen=True, gc=False):
    """A peer claims a lease; answer with ``grant``, or ``respond`` with 403."""

    sequence: int
    lease: str

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return f"LeaseClaimed({self.sequence}, …)"


class Summoned(msgspec.Struct, frozen=True, gc=False):
    """A peer wants content of a resource of its lease; ``respond`` with 200 or 400, and then send."""

    sequence: int
    resource: str


class Dismissed(msgspec.Struct, frozen=True, gc=False):
    """A peer wants no more content of a resource; let nothing more come, and ``respond`` with 200."""

    sequence: int
    resource: str


# A data flow, as a client sees it


class ResponseReceived(msgspec.Struct, frozen=True, gc=False):
    """The server has answered a command, or, where contents are not confirmed, refused one, by its number."""

    sequence: int
    code: int


# On both sides


class ContentsRejected(msgspec.Struct, frozen=True, gc=False):
    """The peer rejects contents.

    Args:
        sequence: Of one content.
        multiple: Whether those before it, as far as they are open, are rejected as well.
        recycle: Whether they may be sent again.
    """

    sequence: int
    multiple: bool
    recycle: bool


class FlowSilent(msgspec.Struct, frozen=True, gc=False):
    """Nothing came for too long: the peer counts as gone, and the engine has ended."""


ControlServerEvent: TypeAlias = (
    OpenReceived
    | AuthorizeReceived
    | ProfileChosen
    | DataLeaseAsked
    | LeaseReleased
    | CommandReceived
    | CloseReceived
    | IllFormed
)
ControlClientEvent: TypeAlias = SessionReady | LoginRequired | SASLChallenged | DataLeased | ReplyReceived | IllFormed
DataServerEvent: TypeAlias = (
    LeaseClaimed | Summoned | Dismissed | ContentRun | ConfirmRun | ContentsRejected | IllFormed
)
DataClientEvent: TypeAlias = ResponseReceived | ContentRun | ConfirmRun | ContentsRejected | IllFormed
