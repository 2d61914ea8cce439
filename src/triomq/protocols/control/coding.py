"""Operations and their answers as JSON, for either side."""

from typing import TypeVar, cast

import msgspec

from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols.control.operations import OPERATIONS, Operation, name_of

R = TypeVar("R")

_encoder = msgspec.json.Encoder(enc_hook=str)  # types that JSON does not have are written as their text


def encode(value: object) -> bytes:
    """Write arguments, a result or a part of one.

    Raises:
        LocalProtocolError: A text in it is not Unicode; see ``sayable``.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"JSON has Unicode texts alone: {error}") from None


def sayable(text: str) -> str:
    r"""Return a text that JSON can hold: octets in AMQP's names that are no UTF-8 become ``\xff`` and the like."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text


def decode_operation(name: str, arguments: bytes) -> Operation[object]:
    """Read what a client asks for.

    Raises:
        KeyError: There is no such operation.
        RemoteProtocolError: The arguments are not those of the operation.
    """
    row = OPERATIONS[name]
    try:
        return msgspec.json.decode(arguments, type=row.operation)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"arguments of {name}: {error}") from None


def decode_result(operation: Operation[R], result: bytes) -> R:
    """Read what a server answers.

    Raises:
        RemoteProtocolError: It is no answer to this operation.
    """
    name = name_of(operation)
    try:
        return cast(R, msgspec.json.decode(result, type=OPERATIONS[name].result))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"the answer to {name} cannot be read: {error}") from None
