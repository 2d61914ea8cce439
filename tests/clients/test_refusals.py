"""Errors from reply codes."""

import pytest

from triomq.clients.refusals import error_of
from triomq.errors import (
    AccessRefused,
    Disconnected,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    RemoteProtocolError,
    ResourceLocked,
    TriomqError,
)
from triomq.protocols.amqp import REPLY_NAMES

KINDS = {
    403: AccessRefused,
    404: NotFound,
    405: ResourceLocked,
    406: PreconditionFailed,
    506: LimitExceeded,
    530: AccessRefused,
    320: Disconnected,
    501: RemoteProtocolError,
    999: RemoteProtocolError,
}


@pytest.mark.parametrize("code", KINDS)
def test_code_has_its_error(code: int) -> None:
    error = error_of(code, "TEXT - why")
    assert type(error) is KINDS[code]
    assert str(error) == f"{code} TEXT - why"


@pytest.mark.parametrize("code", REPLY_NAMES)
def test_every_code_of_the_specification_has_one(code: int) -> None:
    assert isinstance(error_of(code, ""), TriomqError)
