import pytest

from triomq.core import Head, traits_of
from triomq.endpoints.content import AMQP_CODEC, head_of
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import Framing


def framing_of(**properties: object) -> Framing:
    encoded = encode_properties(BasicProperties(**properties))  # type: ignore[arg-type]
    return Framing(7, 0, len(encoded), len(encoded), 1, int.from_bytes(encoded[:2], "big"))


def test_head_tells_where_everything_stands() -> None:
    framing = framing_of(content_type="a")
    found = head_of("e", "k", framing, publisher=3, persistent=True)
    assert found == Head(
        "e", "k", 0, 4, 4, 1, 7, framing.flags, traits_of(codec=AMQP_CODEC, publisher=3, persistent=True)
    )


@pytest.mark.parametrize("properties", [{}, {"expiration": "1"}, {"priority": 1}, {"expiration": "1", "priority": 0}])
def test_head_tells_what_is_worth_decoding(properties: dict[str, object]) -> None:
    head = head_of("e", "k", framing_of(**properties))
    assert (head.traits.has_expiration, head.traits.has_priority) == (
        "expiration" in properties,
        "priority" in properties,
    )
