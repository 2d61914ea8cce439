"""What the commands of the profile ``amqp`` take; keys are those of AMQP's methods, with hyphens."""

from collections.abc import Mapping
from typing import Final

import msgspec

from triomq.endpoints.mtl.profile import BadRequest

_WHOLE: Final = range(-(1 << 63), 1 << 63)
"""Numbers that AMQP's tables and the store can hold."""


class DeclareExchange(msgspec.Struct, frozen=True, rename="kebab"):
    """Of ``Exchange.Declare``.

    Args:
        name: The exchange's name.
        type: direct, fanout, topic, headers or x-consistent-hash.
        durable: Whether it is there again after a restart.
        auto_delete: Whether it goes with its last binding.
        internal: Whether only other exchanges may publish into it.
        arguments: Those of AMQP, such as ``alternate-exchange``.
        passive: Whether it is only looked for.
    """

    name: str
    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = {}
    passive: bool = False


class DeleteExchange(msgspec.Struct, frozen=True, rename="kebab"):
    """Of ``Exchange.Delete``.

    Args:
        name: The exchange's name.
        if_unused: Whether it is only deleted without bindings.
    """

    name: str
    if_unused: bool = False


class DeclareAMQPQueue(msgspec.Struct, frozen=True, rename="kebab"):
    """Of ``Queue.Declare``.

    Args:
        name: The queue's name; without one it gets one.
        durable: Whether it is there again after a restart.
        exclusive: Whether it is this session's alone, and goes with it.
        auto_delete: Whether it goes with its last reader.
        arguments: Those of AMQP, such as ``x-max-length``.
        passive: Whether it is only looked for.
    """

    name: str = ""
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object] = {}
    passive: bool = False


class DeleteAMQPQueue(msgspec.Struct, frozen=True, rename="kebab"):
    """Of ``Queue.Delete``.

    Args:
        name: The queue's name.
        if_unused: Whether it is only deleted without readers.
        if_empty: Whether it is only deleted without messages.
    """

    name: str
    if_unused: bool = False
    if_empty: bool = False


class BindQueue(msgspec.Struct, frozen=True, rename="kebab"):
    """Of ``Queue.Bind`` and ``Queue.Unbind``.

    Args:
        queue: The queue's name.
        exchange: The exchange's name.
        routing_key: What the exchange compares with that of a message.
        arguments: What an exchange of the type headers compares.
    """

    queue: str
    exchange: str
    routing_key: str = ""
    arguments: Mapping[str, object] = {}


class GetMessage(msgspec.Struct, frozen=True):
    """Of ``Queue.Get``.

    Args:
        name: The queue's name.
        confirm: Whether the message is held until Queue.Confirm or Queue.Reject, or until the session ends.
    """

    name: str
    confirm: bool = False


class ConfirmMessage(msgspec.Struct, frozen=True):
    """Of ``Queue.Confirm``.

    Args:
        delivery: What the answer to Queue.Get has under this name.
        multiple: Whether those before it are meant as well.
    """

    delivery: int
    multiple: bool = False


class RejectMessage(msgspec.Struct, frozen=True):
    """Of ``Queue.Reject``.

    Args:
        delivery: What the answer to Queue.Get has under this name.
        multiple: Whether those before it are meant as well.
        recycle: Whether it goes back to its place; else it becomes a dead letter, or is dropped.
    """

    delivery: int
    multiple: bool = False
    recycle: bool = False


def require_fitting(arguments: Mapping[str, object]) -> Mapping[str, object]:
    """Return arguments that AMQP's tables could have.

    Raises:
        BadRequest: JSON has a number that is larger, or a name that is longer.
    """
    found: list[object] = [arguments]
    while found:
        value = found.pop()
        if isinstance(value, Mapping):
            if not all(isinstance(name, str) and len(name.encode()) < 256 for name in value):
                raise BadRequest("the name of an argument has more than 255 bytes")
            found += value.values()
        elif isinstance(value, list):
            found += value
        elif isinstance(value, int) and value not in _WHOLE:
            raise BadRequest(f"{value} is no number of 64 bits, as arguments have them")
    return arguments
