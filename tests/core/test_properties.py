from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import (
    CORE_CODEC,
    Codecs,
    Head,
    Properties,
    QueueMessage,
    amend_core,
    decode_core,
    encode_core,
    traits_of,
)

TEXTS = st.none() | st.text(max_size=5)
HEADERS = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers(0, 9) | st.text() | st.binary() | st.decimals(0, 9)
)


@given(
    st.builds(
        Properties,
        content_type=TEXTS,
        headers=st.none() | HEADERS,
        persistent=st.booleans(),
        priority=st.none() | st.integers(0, 255),
        correlation_id=TEXTS,
        expiration=st.none() | st.floats(0, 1e6),
        timestamp=st.none() | st.datetimes(timezones=st.just(UTC)),
        user_id=TEXTS,
    )
)
def test_properties_come_back_as_they_were(properties: Properties) -> None:
    assert decode_core(encode_core(properties)) == properties


def test_decimal_header_stays_a_decimal() -> None:
    properties = Properties(headers={"price": [Decimal("1.50")], "when": datetime(2020, 1, 1)})
    decoded = decode_core(encode_core(properties)).headers
    assert decoded is not None
    assert repr(decoded) == repr(properties.headers)


def test_no_properties_take_no_octets() -> None:
    assert encode_core(Properties()) == b""
    assert decode_core(b"") == Properties()


def test_codecs_decode_by_the_tag_of_the_head() -> None:
    codecs = Codecs()
    codecs.register(7, lambda encoded: Properties(type=encoded.decode()), amend_core)
    assert codecs.decode(QueueMessage(Head(properties_stop=3, traits=traits_of(codec=7)), b"abcbody")) == Properties(
        type="abc"
    )
    assert codecs.decode(QueueMessage(Head(), b"body")) == Properties()


@pytest.mark.parametrize("codec", [CORE_CODEC, 7])
def test_codec_tag_is_never_given_to_two(codec: int) -> None:
    codecs = Codecs()
    codecs.register(7, decode_core, amend_core)
    codecs.register(7, decode_core, amend_core)
    with pytest.raises(ValueError, match=f"codec tag {codec} is taken already"):
        codecs.register(codec, lambda properties: Properties(), amend_core)


def test_properties_of_an_unknown_wire_are_none_and_stay_as_they_came() -> None:
    codecs, message = Codecs(), QueueMessage(Head("e", "k", 0, 4, 1, traits=traits_of(codec=77)), b"blue")
    assert codecs.read(message) == Properties()
    assert codecs.amend(message, {"a": 1}) == (b"blue", 0)
