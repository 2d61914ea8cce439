"""Destinations: ``topic/NAME`` is the sink NAME; ``queue/NAME``, or NAME alone, is the queue NAME."""

from typing import TYPE_CHECKING, Final, NamedTuple

from triomq.core import DeclareQueue, DeclareSink, NoSuchQueue, NoSuchSink, QueueOptions, SinkKind, SinkOptions
from triomq.endpoints.declaring import RESERVED
from triomq.errors import AccessRefused, NotFound, PreconditionFailed

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.connection import MicroMsgServerConnection

LONGEST: Final = 255
"""Octets of a destination: what a MESSAGE frame has room for."""

_TOPIC, _QUEUE = "topic/", "queue/"

_DYNAMIC_QUEUE: Final = QueueOptions()
_DYNAMIC_TOPIC: Final = SinkOptions(kind=SinkKind.FANOUT)


class Destination(NamedTuple):
    """What a client names.

    Args:
        text: As it names it.
        name: The name of the queue or the sink.
        is_topic: Whether it is a sink.
    """

    text: str
    name: str
    is_topic: bool


class NoDestination(NotFound):
    """A message names no destination, and none is configured."""

    def __init__(self) -> None:
        super().__init__("the message names no destination; name queue/NAME or topic/NAME")


class BadDestination(PreconditionFailed):
    """The name is empty or too long, or has characters that nobody can see."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text[:100]!r} is no destination; name queue/NAME or topic/NAME, all of it in {LONGEST} octets"
        )


def parse_destination(text: str) -> Destination:
    """Return what a text names.

    Raises:
        NoDestination: It is empty.
        BadDestination: It names nothing.
    """
    if not text:
        raise NoDestination
    is_topic = text.startswith(_TOPIC)
    name = text[len(_TOPIC) :] if is_topic else text.removeprefix(_QUEUE)
    if not name or not name.isprintable() or len(text.encode("utf-8", "surrogateescape")) > LONGEST:
        raise BadDestination(text)
    return Destination(text, name, is_topic)


def require_there(connection: "MicroMsgServerConnection", destination: Destination) -> None:
    """Have a destination declared that is not there, where that is configured.

    Raises:
        NotFound: It is not there.
        AccessRefused: The user may not have it declared.
        Restarting: Try again later.
    """
    directory, config, name = connection.directory, connection.config, destination.name
    if destination.is_topic:
        if name in directory.sinks:
            return
        if not config.dynamic_topics:
            raise NoSuchSink(name)
        _require_free(name)
        connection.ask(connection.domain, DeclareSink(name, _DYNAMIC_TOPIC, connection.session))
    else:
        if name in directory.queues:
            return
        if not config.dynamic_queues:
            raise NoSuchQueue(name)
        _require_free(name)
        connection.ask(connection.domain, DeclareQueue(name, _DYNAMIC_QUEUE, connection.session))


def _require_free(name: str) -> None:
    if name.startswith(RESERVED):
        raise AccessRefused(f"{name!r} contains the reserved prefix {RESERVED!r}; name it otherwise")
