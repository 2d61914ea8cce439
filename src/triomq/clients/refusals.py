"""From the reply code of a close to the error that a caller can catch (AMQP 0-9-1 section 1.2)."""

from triomq.errors import (
    AccessRefused,
    Disconnected,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    RemoteProtocolError,
    ResourceLocked,
    TriomqError,
    Unroutable,
)

_ERRORS: dict[int, type[TriomqError]] = {
    311: LimitExceeded,
    312: Unroutable,
    313: Unroutable,
    320: Disconnected,
    402: NotFound,
    403: AccessRefused,
    404: NotFound,
    405: ResourceLocked,
    406: PreconditionFailed,
    506: LimitExceeded,
    530: AccessRefused,
}


def error_of(code: int, text: str) -> TriomqError:
    """Make the error for what a broker has closed a channel or a connection with.

    Codes that say that a rule of the protocol was broken, or that the broker failed, become ``RemoteProtocolError``.
    """
    return _ERRORS.get(code, RemoteProtocolError)(f"{code} {text}")
