"""Properties of MicroMsg2 and those of the core: what is the same, and what is left out."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from triomq.core import Properties
from triomq.endpoints import from_amqp, to_amqp
from triomq.endpoints.micromsg.content import HAS_KEY, amend_micromsg, from_micromsg, to_values
from triomq.protocols.micromsg import decode_properties, encode_properties

MOMENT = datetime(2014, 10, 13, 11, 0, tzinfo=UTC)

EVERYTHING = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={"number": 1, "half": 0.5, "text": "hällo", "at": MOMENT},
    persistent=True,
    priority=5,
    correlation_id="c",
    reply_to="queue/answers",
    expiration=60.0,
    message_id="m",
    timestamp=MOMENT,
    type="order",
    user_id="ann",
    app_id="shop",
)


def test_all_standard_properties_and_headers_of_four_kinds_survive() -> None:
    values = to_values(EVERYTHING)
    assert values == {
        "content-type": "text/plain",
        "content-encoding": "gzip",
        "number": 1,
        "half": 0.5,
        "text": "hällo",
        "at": MOMENT,
        "delivery-mode": 2,
        "priority": 5,
        "correlation-id": "c",
        "reply-to": "queue/answers",
        "expiration": 60000,
        "message-id": "m",
        "timestamp": MOMENT,
        "type": "order",
        "user-id": "ann",
        "app-id": "shop",
    }
    assert from_micromsg(encode_properties(values)) == EVERYTHING


def test_properties_survive_the_way_through_amqp() -> None:
    assert from_amqp(to_amqp(from_micromsg(encode_properties(to_values(EVERYTHING))))) == EVERYTHING


def test_what_has_no_form_is_left_out() -> None:
    headers: dict[str, object] = {
        "list": [1],
        "table": {"a": 1},
        "octets": b"x",
        "nothing": None,
        "nan": float("nan"),
        "infinite": float("inf"),
        "no number": Decimal("NaN"),
        "with.dot": 1,
        "größe": 1,
        "": 1,
        "Kept": 1,
        "kept": 2,
        "truth": True,
        "decimal": Decimal("1.50"),
        "local": MOMENT.replace(tzinfo=None),
        "broken": "\udcff",
        "routing-key": "k",
        "redelivered": 1,
        "priority": "a header, and no priority",
        "expiration": 1,
    }
    values = to_values(Properties(headers=headers, persistent=False))
    assert values == {
        "kept": 1,
        "truth": 1,
        "decimal": Decimal("1.50"),
        "local": MOMENT,
        "broken": "?",
        "delivery-mode": 1,
    }


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (b"", Properties(persistent=False)),
        (b"delivery-mode:N2;", Properties(persistent=True)),
        (b"delivery-mode:2", Properties(persistent=True)),
        (b"delivery-mode:N3;", Properties(headers={"delivery-mode": 3}, persistent=False)),
        (b"priority:N5;", Properties(priority=5, persistent=False)),
        (b"priority:5;", Properties(priority=5, persistent=False)),
        (b"priority:N256;", Properties(headers={"priority": 256}, persistent=False)),
        (b"priority:Thigh;", Properties(headers={"priority": "high"}, persistent=False)),
        (b"priority:N-1;", Properties(headers={"priority": -1}, persistent=False)),
        (b"expiration:N1500;", Properties(expiration=1.5, persistent=False)),
        (b"expiration:N-1;", Properties(headers={"expiration": -1}, persistent=False)),
        (b"type:N1;", Properties(headers={"type": 1}, persistent=False)),
        (b"timestamp:Tnow;", Properties(headers={"timestamp": "now"}, persistent=False)),
        (b"timestamp:D100.0;", Properties(timestamp=datetime.fromtimestamp(100, UTC), persistent=False)),
        (b"routing-key:Ta;redelivered:N1;", Properties(persistent=False)),
        (b"x-death:Tnone;", Properties(headers={"x-death": "none"}, persistent=False)),
        (b"x-death:T%5B1%5D;", Properties(headers={"x-death": "[1]"}, persistent=False)),
    ],
)
def test_name_means_a_standard_property_if_its_value_fits(encoded: bytes, expected: Properties) -> None:
    assert from_micromsg(encoded) == expected


def test_amended_properties_keep_what_is_not_amended() -> None:
    encoded = b"expiration:N1000;a:N1;b:N2;routing-key:Tk;"
    amended, flags = amend_micromsg(encoded, {"x-new": "x"}, drop_expiration=True, without=("b",))
    assert (decode_properties(amended), flags) == ({"a": 1, "routing-key": "k", "x-new": "x"}, HAS_KEY)
    assert amend_micromsg(b"a:N1;", {}, drop_expiration=False) == (b"a:N1;", 0)


def test_history_of_a_dead_letter_is_remembered() -> None:
    history = [{"count": 1, "reason": "expired", "queue": "q", "time": MOMENT, "routing-keys": ["q"]}]
    amended, _ = amend_micromsg(b"a:N1;", {"x-death": history}, drop_expiration=True)
    assert from_micromsg(amended).headers == {"a": 1, "x-death": history}


def test_headers_that_are_too_long_for_a_frame_are_left_out() -> None:
    headers: dict[str, object] = {"long": "x" * 70_000}
    amended, _ = amend_micromsg(b"type:Tt;", headers, drop_expiration=True)
    assert amended == b"type:Tt;"
