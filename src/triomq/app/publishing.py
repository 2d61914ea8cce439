"""Publishing from this process: from arguments to a receipt from every queue that a message was routed to."""

from collections.abc import Sequence
from math import inf

import msgspec

from triomq.actors import Turn
from triomq.app.checks import close_to
from triomq.app.consumers import Warn
from triomq.core import (
    CORE_CODEC,
    EVERYTHING,
    CachedRoute,
    Directory,
    Head,
    Pressure,
    Properties,
    Publisher,
    PublishingPaused,
    Receipt,
    RoutedRun,
    Session,
    Unrouted,
    WaitingPublisher,
    decode_core,
    encode_core,
    makes_wait,
)
from triomq.errors import LimitExceeded, Unroutable

_LONGEST_NAME = 255

_NO_QUEUE = (
    "published into the default sink with a key that names no queue, so the message is dropped; mandatory=True makes "
    "that an error"
)

_ROUTES = 1024  # remembered: programs repeat keys; those that do not only pay for a new one


class Publication(msgspec.Struct, frozen=True):
    """One message on its way into a domain; ``DomainHandle.publish`` says what each field means."""

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
        session: Who publishes.
        turn: The one in which it is done.
        warn: Logs what the program seems to get wrong, with fields.
    """

    def __init__(self, directory: Directory, session: Session, turn: Turn, warn: Warn) -> None:
        self._directory = directory
        self._session = session
        self._warn = warn
        self._way = WaitingPublisher(Publisher(directory, EVERYTHING, turn), directory, turn)
        self._routes: dict[tuple[str, str], CachedRoute] = {}
        self._version = -1  # of the directory, when the routes were begun

    async def publish(self, publication: Publication) -> None:
        """Publish, wait for room first where a queue makes publishers wait, and until every queue has answered."""
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
        """Make the run of one message.

        Raises:
            ValueError: The key is too long, a property is not of its type, or the delay is no time.
        """
        said = publication.properties
        encoded = _encode(said)
        sink, key = publication.sink, publication.key
        route = self._routes.get((sink, key)) or self._learn(sink, key)
        if not 0 <= publication.delay < inf:
            raise ValueError(f"a delay is a number of seconds, 0 or more; not {publication.delay!r}")
        start = len(encoded)
        head = Head(
            CORE_CODEC,
            sink,
            key,
            0,
            start,
            start,
            publisher=self._session.number,
            has_expiration=said.expiration is not None,
            has_priority=said.priority is not None,
            persistent=said.persistent,
        )
        content = encoded + publication.body
        return RoutedRun(route, head, [content], len(content))

    def _unrouted(self, publication: Publication) -> Unrouted | None:
        """Say what is done with the message should no queue want it."""
        if publication.mandatory:
            return _refuse
        return None if publication.sink else self._warn_of_no_queue

    def _warn_of_no_queue(self, head: Head, contents: Sequence[bytes]) -> None:
        """Say that a queue which was named is not there: it may be a typing error, and it may just have gone."""
        key = head.routing_key
        self._warn(_NO_QUEUE, lambda: {"key": key, "close": close_to(key, self._directory.queues)})

    def _learn(self, sink: str, key: str) -> CachedRoute:
        """Remember a route; what is remembered of queues that may be gone is forgotten first.

        Raises:
            ValueError: The key is too long.
        """
        check_name(key)
        if self._directory.version != self._version or len(self._routes) >= _ROUTES:
            self._routes.clear()
            self._version = self._directory.version
        route = self._routes[sink, key] = CachedRoute(sink, key)
        return route

    def _refusal(self, paused: PublishingPaused) -> Exception:
        """Word a pressure that is not waited for."""
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
    """Refuse a mandatory message that no queue wants."""
    sink, key = head.exchange, head.routing_key
    raise Unroutable(f"no queue is bound to sink {sink!r} for key {key!r}; bind one, or leave mandatory out")


def _encode(properties: Properties) -> bytes:
    """Encode properties, and see to it that consumers can read them: a mistake is told to whoever makes it.

    Raises:
        ValueError: A property is not of its type.
    """
    encoded = encode_core(properties)
    try:
        decode_core(encoded)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$.")
        what = f"the property {path.rstrip('`')}" if path else "these properties"
        raise ValueError(f"{what} cannot be published: {said.replace('`', '')}") from None
    return encoded


def check_name(name: str) -> None:
    """Refuse a name or a key that wires cannot carry (AMQP 0-9-1 section 4.2.5.3, short strings).

    Raises:
        ValueError: It is too long, or holds what is no text.
    """
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > _LONGEST_NAME:
        raise ValueError(f"{name[:40]!r}… takes {size} octets in UTF-8; names and keys have at most {_LONGEST_NAME}")


def _check(receipt: Receipt, publication: Publication) -> None:
    if receipt.refusals:
        raise LimitExceeded(
            f"a queue behind sink {publication.sink!r} and key {publication.key!r} refused the message: it is full "
            "(overflow reject-publish) or was stopped; consume from it, or raise its max_length"
        )
