"""Direct reply-to: the names that it has (RabbitMQ's ``amq.rabbitmq.reply-to``), and naming an asker in a request."""

from hashlib import blake2b
from typing import Protocol

from triomq.endpoints.content.properties import InvalidProperties
from triomq.protocols import replace_text

REPLY_TO = "amq.rabbitmq.reply-to"
"""The queue that is none: its consumers get direct replies (RabbitMQ's direct reply-to)."""

_OCTETS = REPLY_TO.encode()


class Asker(Protocol):
    """Who publishes requests."""

    @property
    def reply_name(self) -> str:
        """The name of the queue in which it takes direct replies; empty if it takes none."""


def is_reply_queue(name: str) -> bool:
    """Return whether a name belongs to direct replies: that which clients write, or one that the broker makes of it."""
    return name.startswith(REPLY_TO) and (name == REPLY_TO or name[len(REPLY_TO)] == ".")


def without_secret(text: str) -> str:
    """Return a text without the secret part of a name for direct replies, in whose place there is a hash of it.

    A client that knows the name can send replies in place of others, so it is shown only to those that it was sent to.
    """
    start, name, secret = text.partition(f"{REPLY_TO}.")
    if not secret:
        return text
    shown = blake2b(secret.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    return f"{start}{name}{shown}"


def with_reply_name(asker: Asker, encoded: bytes) -> bytes:
    """Name the asker's own queue in encoded properties that ask for direct replies; return all others as they are.

    Raises:
        InvalidProperties: They ask for direct replies, and the asker takes none.
    """
    if _OCTETS not in encoded:
        return encoded
    name = asker.reply_name
    changed = replace_text(encoded, "reply_to", _OCTETS, name)
    if changed is not encoded and not name:
        raise InvalidProperties("fast reply consumer does not exist")
    return changed
