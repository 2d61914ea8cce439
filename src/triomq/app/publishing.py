"""Publishing from this process: from arguments to the answers of all queues that a message was routed to."""

from collections.abc import Sequence
from math import inf

import msgspec

from triomq.actors import Turn
from triomq.app.checks import close_to
from triomq.app.consumers import Warn
from triomq.core import (
    EVERYTHING,
    Directory,
    Head,
    Pressure,
    Properties,
    Publisher,
    PublishingPaused,
    Receipt,
    RouteCache,
    RoutedRun,
    Session,
    Unrouted,
    WaitingPublisher,
    core_message,
    decode_core,
    makes_wait,
    properties_of,
)
from triomq.errors import LimitExceeded, Unroutable

_LONGEST_NAME = 255

_NO_QUEUE = (
    "published into the default sink with a key that names no queue, so the message is dropped; mandatory=True makes "
    "that an error"
)


class Publication(msgspec.Struct, frozen=True):
    """One message on its way into a domain, with the arguments of ``DomainHandle.publish``."""

    sink: str
    key: str
    body: bytes
    properties: Properties
    mandatory: bool = False
    delay: float = 0.0


class InProcessPublisher:
    """Publishes into one domain; a part of its ``DomainHandle``.

    Args:
        directory: The domain's sinks and queues.
        session: The publisher's.
        turn: That of the broker's actors.
        warn: Logs a likely mistake of the program, with fields.
    """

    def __init__(self, directory: Directory, session: Session, turn: Turn, warn: Warn) -> None:
        self._directory = directory
        self._session = session
        self._warn = warn
        self._way = WaitingPublisher(Publisher(directory, EVERYTHING, turn), directory, turn)
        self._routes = RouteCache(directory, check_name)

    async def publish(self, publication: Publication) -> None:
        """Wait for room where a queue makes publishers wait, publish, and wait until every queue has answered."""
        run = self._run(publication)
        try:
            receipt = await self._way.publish(run, publication.delay, self._unrouted(publication))
        except PublishingPaused as paused:
            raise self._refusal(paused) from None
        _check(receipt, publication)

    def publish_nowait(self, publication: Publication) -> None:
        """Publish without waiting.

        Raises:
            trio.WouldBlock: A queue has no room, or is being restarted, or too much is on its way to the disk; nothing
                was published.
        """
        run = self._run(publication)
        try:
            receipt = self._way.publish_nowait(run, publication.delay, self._unrouted(publication))
        except PublishingPaused as paused:
            raise self._refusal(paused) from None
        _check(receipt, publication)

    def _run(self, publication: Publication) -> RoutedRun:
        """Return a run of one message.

        Raises:
            ValueError: The key is too long, a property is not of its type, or the delay is no time.
        """
        sink, key, properties = publication.sink, publication.key, publication.properties
        route = self._routes.find(sink, key)
        if not 0 <= publication.delay < inf:
            raise ValueError(f"a delay is a number of seconds, 0 or more; not {publication.delay!r}")
        head, content = core_message(sink, key, publication.body, properties, publisher=self._session.number)
        _check_properties(head, content)
        return RoutedRun(route, head, [content], len(content))

    def _unrouted(self, publication: Publication) -> Unrouted | None:
        """Return what to call if no queue matches the message."""
        if publication.mandatory:
            return _refuse
        return None if publication.sink else self._warn_of_no_queue

    def _warn_of_no_queue(self, head: Head, contents: Sequence[bytes]) -> None:
        """Warn that the named queue is not there: the key may be mistyped, or the queue may just have gone."""
        key = head.routing_key
        self._warn(_NO_QUEUE, lambda: {"key": key, "close": close_to(key, self._directory.queues)})

    def _refusal(self, paused: PublishingPaused) -> Exception:
        """Return the error for a pressure that is not waited for."""
        fault = None if self._directory.persistence is None else self._directory.persistence.journal.fault
        if paused.pressure is Pressure.DISK and fault is not None:
            return type(fault)(f"the message was not published: {fault}")
        memory, names = self._directory.memory, map(Directory.name_of, paused.queues)
        full = next(name for name in names if not makes_wait(self._directory.queues[name]))
        return LimitExceeded(
            f"{memory.reason}: queue {full!r} takes nothing; consume, raise the mark, or give it a limit and "
            "overflow='wait'"
        )


def _refuse(head: Head, contents: Sequence[bytes]) -> None:
    """Refuse a mandatory message that no queue matches."""
    sink, key = head.exchange, head.routing_key
    raise Unroutable(f"no queue is bound to sink {sink!r} for key {key!r}; bind one, or leave mandatory out")


def _check_properties(head: Head, content: bytes) -> None:
    """Check that consumers can read the properties, so that a mistake is raised at the publisher.

    Raises:
        ValueError: A property is not of its type.
    """
    try:
        decode_core(properties_of(head, content))
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        what = f"the property {path.rstrip('`')}" if path else "these properties"
        raise ValueError(f"{what} cannot be published: {problem.replace('`', '')}") from None


def check_name(name: str) -> None:
    """Refuse a name or a key that wires cannot carry (AMQP 0-9-1 section 4.2.5.3, short strings).

    Raises:
        ValueError: It is too long.
    """
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > _LONGEST_NAME:
        raise ValueError(f"{name[:40]!r}… takes {size} bytes in UTF-8; names and keys have at most {_LONGEST_NAME}")


def _check(receipt: Receipt, publication: Publication) -> None:
    if receipt.refusals:
        raise LimitExceeded(
            f"a queue behind sink {publication.sink!r} and key {publication.key!r} refused the message: it is full "
            "(overflow reject-publish) or was stopped; consume from it, or raise its max_length"
        )
