"""Publishing from this process: from arguments to a receipt from every queue that a message was routed to."""

from collections.abc import Callable

import msgspec
import trio

from triomq.app.consumers import Consumers
from triomq.core import (
    CORE_CODEC,
    Directory,
    Head,
    Properties,
    Publish,
    Receipt,
    decode_core,
    encode_core,
)
from triomq.errors import LimitExceeded, Unroutable

__all__ = ["Publication", "check_name", "publish", "publish_nowait"]

_LONGEST_NAME = 255


class Publication(msgspec.Struct, frozen=True):
    """One message on its way into a domain; ``DomainHandle.publish`` says what each field means."""

    sink: str
    key: str
    body: bytes
    properties: Properties
    mandatory: bool = False


async def publish(directory: Directory, consumers: Consumers, publication: Publication) -> None:
    """Publish, and wait until every queue has answered."""
    await trio.lowlevel.checkpoint_if_cancelled()
    done = trio.Event()
    receipt = consumers.turn(lambda: _place(directory, publication, done.set))
    if receipt.missing:
        await done.wait()
    else:
        await trio.lowlevel.cancel_shielded_checkpoint()
    _check(receipt, publication)


def publish_nowait(directory: Directory, consumers: Consumers, publication: Publication) -> None:
    """Publish without waiting.

    Raises:
        trio.WouldBlock: A queue has not answered yet.
    """
    receipt = consumers.turn(lambda: _place(directory, publication, _nothing))
    if receipt.missing:
        raise trio.WouldBlock
    _check(receipt, publication)


def _place(directory: Directory, publication: Publication, done: Callable[[], None]) -> Receipt:
    """Tell every queue that the message is routed to."""
    sink, key, said = publication.sink, publication.key, publication.properties
    encoded = _encode(said)
    check_name(key)
    route = directory.route(sink, key, lambda: said.headers or {})
    if publication.mandatory and not route.queues:
        raise Unroutable(f"no queue is bound to sink {sink!r} for key {key!r}; bind one, or leave mandatory out")
    start = len(encoded)
    head = Head(CORE_CODEC, sink, key, 0, start, start)
    content = encoded + publication.body
    receipt = Receipt(1, 1, len(route.queues), done)
    for queue in route.queues:
        queue.tell_nowait(Publish(head, [content], len(content), receipt))
    return receipt


def _encode(properties: Properties) -> bytes:
    """Encode properties, and see to it that consumers can read them: a mistake is told to whoever makes it.

    Raises:
        ValueError: A property is not of its type.
    """
    encoded = encode_core(properties)
    try:
        decode_core(encoded)
    except msgspec.ValidationError as error:
        raise ValueError(f"these properties cannot be read again: {error}") from None
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
