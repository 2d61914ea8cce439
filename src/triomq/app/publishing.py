"""Publishing from this process: from arguments to a receipt from every queue that a message was routed to."""

from collections.abc import Callable, Collection, Sequence
from math import inf

import msgspec
import trio

from triomq.app.checks import close_to
from triomq.app.consumers import Consumers
from triomq.core import (
    CORE_CODEC,
    Directory,
    Fits,
    Head,
    Overflow,
    Properties,
    Publish,
    QueueStore,
    Receipt,
    Session,
    decode_core,
    encode_core,
)
from triomq.errors import ActorError, ActorStopped, LimitExceeded, Unroutable

__all__ = ["Publication", "Publisher", "check_name"]

_LONGEST_NAME = 255

_NO_QUEUE = (
    "published into the default sink with a key that names no queue, so the message is dropped; mandatory=True makes "
    "that an error"
)


class Publication(msgspec.Struct, frozen=True):
    """One message on its way into a domain; ``DomainHandle.publish`` says what each field means."""

    sink: str
    key: str
    body: bytes
    properties: Properties
    mandatory: bool = False
    delay: float = 0.0


class Publisher:
    """Publishes into one domain; a part of its ``DomainHandle``.

    Args:
        directory: The domain's sinks and queues.
        session: Who publishes.
        consumers: Whose turn it is done in.
    """

    def __init__(self, directory: Directory, session: Session, consumers: Consumers) -> None:
        """Hold a domain."""
        self._directory = directory
        self._session = session
        self._consumers = consumers
        self._lines: dict[QueueStore, trio.Lock] = {}  # of those who wait for room, by queue

    async def publish(self, publication: Publication) -> None:
        """Publish, wait for room first where a queue makes publishers wait, and until every queue has answered."""
        await trio.lowlevel.checkpoint_if_cancelled()
        done = trio.Event()
        run = self._run(publication, done.set)
        stood: set[QueueStore] = set()  # whose lines we have stood in until it was our turn
        while (store := self._consumers.turn(lambda: self._place(publication, run, stood))) is not None:
            await self._stand_in_line(store, run)
            stood.add(store)
        assert run.receipt is not None
        if run.receipt.missing:
            await done.wait()
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()
        if run.receipt.number and self._directory.keeping is not None:
            await self._directory.keeping.wait_committed(run.receipt.number)
        _check(run.receipt, publication)

    def publish_nowait(self, publication: Publication) -> None:
        """Publish without waiting.

        Raises:
            trio.WouldBlock: A queue has no room, or is being restarted; nothing was published.
        """
        run = self._run(publication, _nothing)
        if self._consumers.turn(lambda: self._place(publication, run, only_now=True)) is not None:
            raise trio.WouldBlock
        assert run.receipt is not None
        _check(run.receipt, publication)

    def _place(
        self, publication: Publication, run: Publish, stood: Collection[QueueStore] = (), *, only_now: bool = False
    ) -> QueueStore | None:
        """Tell every queue that the message is routed to; or nobody, if a queue is to be waited for, which is given.

        Args:
            publication: What to publish.
            run: The same, as queues are told it.
            stood: Queues in whose lines it was our turn already.
            only_now: Whether queues that are being restarted are to be waited for as well.
        """
        said = publication.properties
        route = self._directory.route(
            publication.sink, publication.key, lambda: said.headers or {}, properties=lambda: said
        )
        if publication.mandatory and not route.queues:
            raise Unroutable(
                f"no queue is bound to sink {publication.sink!r} for key {publication.key!r}; bind one, or leave "
                "mandatory out"
            )
        if not route.queues and not publication.sink:
            self._warn_of_no_queue(publication.key)
        stores = [self._directory.queues[self._directory.name_of(queue)] for queue in route.queues]
        if stores and self._directory.memory.on:
            return _first_to_wait(stores)
        if run.head.persistent and (fault := self._directory.fault_of(route.queues)) is not None:
            raise type(fault)(f"the message was not published: {fault}")
        for queue, store in zip(route.queues, stores, strict=True):
            if only_now and queue.state in ("starting", "backing_off"):
                return store
            if (
                _makes_wait(store)
                and not run.delay
                and ((store in self._lines and store not in stood) or not _fits(store, run))
            ):
                return store
        assert run.receipt is not None
        run.receipt.missing = len(route.queues)
        for queue in route.queues:
            queue.tell_nowait(run)
        self._directory.memory.note(len(stores), run.size)
        return None

    def _warn_of_no_queue(self, key: str) -> None:
        """Say that a queue which was named is not there: it may be a typing error, and it may just have gone."""
        self._consumers.warn(_NO_QUEUE, lambda: {"key": key, "close": close_to(key, self._directory.queues)})

    async def _stand_in_line(self, store: QueueStore, run: Publish) -> None:
        """Wait until it is our turn and the queue has room, or is gone.

        The first in line alone is woken when there may be room: were all of them, each would wake the others.
        """
        line = self._lines.setdefault(store, trio.Lock())
        try:
            async with line:
                while not _fits(store, run):
                    await _wait_change(store)
        finally:
            if not line.locked():
                self._lines.pop(store, None)

    def _run(self, publication: Publication, done: Callable[[], None]) -> Publish:
        """Make what queues are told.

        Raises:
            ValueError: The key is too long, a property is not of its type, or the delay is no time.
        """
        said = publication.properties
        encoded = _encode(said)
        check_name(publication.key)
        if not 0 <= publication.delay < inf:
            raise ValueError(f"a delay is a number of seconds, 0 or more; not {publication.delay!r}")
        start = len(encoded)
        head = Head(
            CORE_CODEC,
            publication.sink,
            publication.key,
            0,
            start,
            start,
            publisher=self._session.number,
            has_expiration=said.expiration is not None,
            has_priority=said.priority is not None,
            persistent=said.persistent,
        )
        content = encoded + publication.body
        return Publish(head, [content], len(content), Receipt(1, 1, 0, done), delay=publication.delay)


def _makes_wait(store: QueueStore) -> bool:
    return store.options.overflow is Overflow.WAIT and store.options.is_bounded


def _first_to_wait(stores: Sequence[QueueStore]) -> QueueStore:
    """Give a queue to wait for while memory is short.

    Raises:
        LimitExceeded: Not all of them make publishers wait.
    """
    for store in stores:
        if not _makes_wait(store):
            memory = store.directory.memory
            raise LimitExceeded(
                f"queues hold {memory.held} octets, more than memory_high_watermark allows ({memory.mark}): queue "
                f"{store.name!r} takes nothing; consume, raise the mark, or give it a limit and overflow='wait'"
            )
    return stores[0]


def _fits(store: QueueStore, run: Publish) -> bool:
    """Tell whether a queue would take a message now; one that is gone does not matter.

    Raises:
        LimitExceeded: It will never have room.
    """
    options, size = store.options, run.size - run.head.overhead
    if (options.max_bytes is not None and options.max_bytes < size) or options.max_length == 0:
        raise LimitExceeded(
            f"queue {store.name!r} never has room for a message of {size} octets: max_length is {options.max_length}, "
            f"max_bytes is {options.max_bytes}"
        )
    if store.directory.memory.on:
        return False
    try:
        return store.ref.ask_nowait(Fits([run]))
    except trio.WouldBlock:
        return False
    except ActorError:
        return True


async def _wait_change(store: QueueStore) -> None:
    """Wait until a queue may have more room, runs again, or is gone."""
    if store.ref.state != "running":
        try:
            await store.ref.wait_running()
        except ActorStopped:
            await trio.lowlevel.checkpoint()
        return
    if store.directory.memory.on:
        await store.directory.memory.wait_over()
        return
    changed = trio.Event()
    store.wait_room(changed.set)
    try:
        await changed.wait()
    finally:
        store.forget_room(changed.set)


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


def _nothing() -> None:
    """Nobody waits for this receipt."""


def _check(receipt: Receipt, publication: Publication) -> None:
    if receipt.refusals:
        raise LimitExceeded(
            f"a queue behind sink {publication.sink!r} and key {publication.key!r} refused the message: it is full "
            "(overflow reject-publish) or was stopped; consume from it, or raise its max_length"
        )
