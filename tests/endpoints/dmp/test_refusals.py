"""From refusals to codes of direct connections."""

import pytest

from triomq.core import LeaseInvalid, NoSuchQueue, NoSuchSink, QueueFull, SinkInternal
from triomq.endpoints.content import InvalidProperties
from triomq.endpoints.dmp.refusals import denial_of
from triomq.errors import Refused
from triomq.protocols.dmp import CODE_NAMES

CODES: list[tuple[Refused, int]] = [
    (LeaseInvalid(), 402),
    (SinkInternal("s"), 403),
    (NoSuchSink("s"), 404),
    (NoSuchQueue("q"), 404),
    (QueueFull("q"), 541),
    (InvalidProperties("no"), 502),
]


@pytest.mark.parametrize(("error", "code"), CODES, ids=lambda value: str(value)[:30])
def test_each_refusal_has_a_code_of_the_specification(error: Refused, code: int) -> None:
    denied = denial_of(error)
    assert denied.code == code
    assert denied.code in CODE_NAMES
    assert denied.text
