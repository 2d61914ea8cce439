"""Names: of exchanges that are always there, of queues that get theirs from the broker, and those that clients take."""

import base64
import os
from typing import Final

from triomq.core import Directory, SinkKind
from triomq.errors import AccessRefused

RESERVED: Final = "amq."
"""What names of the broker's own begin with: clients use them, and make and delete nothing of such a name."""

STANDARD_EXCHANGES: Final = {
    "amq.direct": SinkKind.DIRECT,
    "amq.fanout": SinkKind.FANOUT,
    "amq.topic": SinkKind.TOPIC,
    "amq.headers": SinkKind.HEADERS,
    "amq.match": SinkKind.HEADERS,
}
"""The exchanges that every virtual host has from the start (section 3.1.3)."""


def generated_name(prefix: str) -> str:
    """Return a name that is not used: 128 random bits (section 1.7.2.1, server-named queues)."""
    return f"{prefix}{base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip('=')}"


def name_for_queue(directory: Directory, wanted: str) -> str:
    """Return the name that a queue is to be declared with; one of the broker's if none is wanted.

    Raises:
        AccessRefused: Clients make no queue of that name.
    """
    if not wanted:
        return generated_name(f"{RESERVED}gen-")
    if wanted.startswith(RESERVED) and wanted not in directory.queues:
        raise AccessRefused(f"queue name '{wanted}' contains reserved prefix 'amq.*'")
    return wanted


def require_exchange(name: str) -> None:
    """Require that an exchange is not the default one, which nobody declares, deletes or binds.

    Raises:
        AccessRefused: It is.
    """
    if not name:
        raise AccessRefused("operation not permitted on the default exchange")


def require_deletable(name: str, virtual_host: str) -> None:
    """Require that clients may delete an exchange of this name.

    Raises:
        AccessRefused: Nobody may.
    """
    require_exchange(name)
    if name.startswith(RESERVED):
        raise AccessRefused(f"deletion of system exchange '{name}' in vhost '{virtual_host}' not allowed")
