from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from triomq.properties import Properties, decode_core, encode_core

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


def test_no_properties_take_no_bytes() -> None:
    assert encode_core(Properties()) == b""
    assert decode_core(b"") == Properties()
