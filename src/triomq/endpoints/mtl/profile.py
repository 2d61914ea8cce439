"""Profiles: what resources, commands and ways of confirming a server of MTL has (11/MTL, "Selecting a Profile").

    Connection.Profile ──> prepare
    Class.Method ────────> a method of the profile, by its name ──> JSON, or a refusal
    Connection.Writer ───> require_writer for each resource ──> a lease ──> Content ──> target ──> the guarded way in
    Connection.Reader ───> require_reader for each resource ──> a lease ──> Summon ───> source ──> the guarded way out

A profile is a class with a name. It says what resources mean in the words of the core: where content goes, and from
which queue it comes. It knows neither sessions nor leases, and holds nothing of any client. One of a user's own looks
like this, and is named in the configuration by ``profiles``::

    @mtl.profile("echo")
    class Echo(mtl.ResourceProfile):
        @mtl.command("Echo.Say", Say)
        def say(self, work: DomainWork, arguments: Say) -> dict[str, object]:
            return {"text": arguments.text}

All methods run in a turn and never wait. What cannot be done now (``Restarting``, ``PublishingPaused``) is tried again
from the beginning, so a method changes nothing before it asks for what may raise that.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

import msgspec

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.domain_work import DomainWork
from triomq.errors import NotFound, Refused

P = TypeVar("P", bound="type[ResourceProfile]")
F = TypeVar("F", bound=Callable[..., dict[str, object]])

NO_CONFIRMS: Final = "none"
FULL_CONFIRMS: Final = "full"

BOTH: Final = frozenset((NO_CONFIRMS, FULL_CONFIRMS))
"""Both ways of confirming."""


class BadRequest(Refused):
    """What was asked for makes no sense: status 400."""


class TooLarge(Refused):
    """What was asked for does not fit into an answer, or is more than is taken: status 413."""


class ContentTarget(msgspec.Struct, frozen=True, gc=False):
    """Where content for a resource goes.

    Args:
        sink: The sink that it is published into.
        key: By which key it is routed.
        queue: The one queue that it goes into, where that is what the resource is: then the sink is the default one,
            and it is for this queue that a right to write is needed.
        by_address: Whether the content's property ``address``, if there is one, is the key in place of that above.
        must_route: Whether content that no queue is bound for is rejected, where content is confirmed.
        address_as_id: Whether the property ``address`` becomes the ``message-id`` of content that has none.
    """

    sink: str
    key: str = ""
    queue: str = ""
    by_address: bool = False
    must_route: bool = True
    address_as_id: bool = False


class SourceReader(Protocol):
    """A resource that is summoned, as ``SourceQueues`` sees it; all of this in a turn."""

    def take_from(self, queue: str) -> None:
        """Let content of one more queue come.

        Raises:
            Refused: As ``DomainWork.subscribe`` does.
        """

    def leave(self, queue: str) -> None:
        """Let nothing more come from a queue; what is unconfirmed stays so."""

    def source_ended(self, reason: str) -> None:
        """Let nothing more come at all: the resource has gone."""


class SourceQueues(Protocol):
    """Tells a reader from which queues it takes, where these come and go while the resource is summoned."""

    def attach(self, reader: SourceReader) -> Iterable[str]:
        """Return the queues of now, and tell the reader of others from now on."""

    def detach(self, reader: SourceReader) -> None:
        """Tell the reader nothing more: it was dismissed, or has ended."""


class ContentSource(msgspec.Struct, frozen=True):
    """Where content of a resource comes from.

    Args:
        queue: The queue; empty if ``queues`` tells which they are.
        exclusive: Whether the reader wants to be its only consumer.
        no_local: Whether content of the same session never comes.
        most: How much content of this resource may be unconfirmed at once; 0 is no limit of its own.
        queues: Tells from which queues it comes, in place of ``queue``.
    """

    queue: str = ""
    exclusive: bool = False
    no_local: bool = False
    most: int = 0
    queues: SourceQueues | None = None


class NoArguments(msgspec.Struct, frozen=True):
    """Of a command that takes none."""


class ProfileCommand(msgspec.Struct, frozen=True):
    """A command of a profile.

    Args:
        name: As texts have it, such as ``Queue.Create``; peers may write it in any case.
        arguments: What its JSON has to be.
        call: Does it.
    """

    name: str
    arguments: type[msgspec.Struct]
    call: Callable[[Any, DomainWork, Any], dict[str, object]]


CommandTable: TypeAlias = dict[str, ProfileCommand]
"""Commands by their names in lower case."""


class ResourceProfile:
    """Base of profiles: without any resource and any command; made by an endpoint, one for all its clients.

    Args:
        context: What the broker lends.
    """

    name: ClassVar[str] = ""
    """What clients choose it by; ``profile`` sets it."""

    commands: ClassVar[Mapping[str, ProfileCommand]] = {}
    """Its commands by their names in lower case; ``profile`` collects them."""

    reader_confirms: ClassVar[frozenset[str]] = BOTH
    """How what readers get may be confirmed."""

    writer_confirms: ClassVar[frozenset[str]] = BOTH
    """How what writers send may be confirmed."""

    def __init__(self, context: BrokerContext) -> None:
        self.context = context

    def prepare(self, work: DomainWork) -> None:
        """Make what the profile needs in the domain of a client that has chosen it; raises what commands raise."""

    def require_writer(self, work: DomainWork, resource: str) -> None:
        """See that a client may send to a resource.

        Raises:
            NotFound: There is no such resource.
            AccessRefused: The client may not send to it.
        """
        self.target(work, resource)

    def require_reader(self, work: DomainWork, resource: str) -> None:
        """See that a client may read a resource; raises as ``require_writer`` does."""
        raise NotFound(f"profile {self.name!r} has no resource {resource!r} that can be read")

    def target(self, work: DomainWork, resource: str) -> ContentTarget:
        """Return where content for a resource goes; asked again when the directory has changed.

        Raises:
            NotFound: As ``require_writer`` does.
            AccessRefused: The same.
        """
        raise NotFound(f"profile {self.name!r} has no resource {resource!r} that can be written to")

    def source(self, work: DomainWork, resource: str) -> ContentSource:
        """Return where content of a resource comes from, which may have to be made; asked at each Summon.

        Raises:
            NotFound: There is no such resource.
            AccessRefused: The client may not read it.
        """
        raise NotFound(f"profile {self.name!r} has no resource {resource!r} that can be read")

    def resources(self, work: DomainWork, *, reading: bool) -> Iterable[str]:
        """List the resources that a client may use in one direction."""
        return ()


def command(name: str, arguments: type[msgspec.Struct] = NoArguments) -> Callable[[F], F]:
    """Make a method of a profile a command.

    Args:
        name: Its class and its method, such as ``Queue.Create``.
        arguments: A frozen Struct that its JSON is converted to; what does not fit is refused with 400.
    """

    def mark(function: F) -> F:
        found = ProfileCommand(name, arguments, function)
        function.__mtl_command__ = found  # type: ignore[attr-defined]  # read by ``profile`` below, and nowhere else
        return function

    return mark


def profile(name: str) -> Callable[[P], P]:
    """Make a class that derives from ``ResourceProfile`` a profile of this name.

    Raises:
        TypeError: It does not derive from that, or two of its commands have one name.
    """

    def finish(kind: P) -> P:
        if not issubclass(kind, ResourceProfile):
            raise TypeError(f"{kind.__qualname__} is no profile; derive it from ResourceProfile")
        kind.name = name
        kind.commands = _commands_of(kind)
        return kind

    return finish


def _commands_of(kind: type[ResourceProfile]) -> CommandTable:
    table: CommandTable = {}
    for attribute in dir(kind):
        found = getattr(getattr(kind, attribute), "__mtl_command__", None)
        if isinstance(found, ProfileCommand):
            other = table.setdefault(found.name.lower(), found)
            if other is not found:
                raise TypeError(f"{kind.__qualname__} has two commands {found.name!r}; names are told apart by letters")
    return table
