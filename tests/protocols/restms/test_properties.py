"""Messages of RestMS and AMQP's basic properties."""

from base64 import b64encode
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols import (
    BasicProperties,
    FieldValue,
    Timestamp,
    Typed,
    decode_properties,
    encode_properties,
    encode_table,
)
from triomq.protocols.restms import (
    JSON,
    XML,
    ContentElement,
    Document,
    HeaderElement,
    MessageElement,
    Problem,
    basic_properties,
    content_body,
    embedded,
    header_elements,
    headers_table,
    message_of,
    parse,
    render,
)

from .strategies import ANY_TEXTS

EVERYTHING = MessageElement(
    address="a.b",
    message_id="7",
    reply_to="K3",
    delivery_mode="2",
    priority="9",
    correlation_id="c",
    expiration="60000",
    timestamp="Sun, 06 Nov 1994 08:49:37 GMT",
    type="t",
    user_id="guest",
    app_id="app",
    sender_id="sender",
    content_encoding="gzip",
    headers=(HeaderElement("k", "v"), HeaderElement("ö", "ß")),
    contents=(ContentElement(type="text/plain", encoding="plain", value="hi"),),
)
ALL = BasicProperties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={"k": "v", "ö": "ß"},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="K3",
    expiration="60000",
    message_id="7",
    timestamp=784111777,
    type="t",
    user_id="guest",
    app_id="app",
    cluster_id="sender",
)


def refused(found: object) -> str:
    assert isinstance(found, Problem), found
    assert found.status == 400
    return found.text


def test_message_has_every_property_and_back() -> None:
    assert basic_properties(EVERYTHING) == ALL
    assert content_body(EVERYTHING) == (b"hi", "text/plain")
    assert message_of(ALL, b"hi", address="a.b") == EVERYTHING
    assert None not in msgspec.structs.astuple(ALL)


def test_encoding_of_the_document_is_no_property() -> None:
    found = basic_properties(MessageElement(contents=(ContentElement(type="", encoding="base64", value=""),)))
    assert found == BasicProperties()


def test_what_the_server_makes_is_not_taken_from_a_client() -> None:
    posted = MessageElement(href="x", asynclet="1", redelivered="1", count="5")
    assert basic_properties(posted) == BasicProperties()


SHORT = ANY_TEXTS.filter(lambda text: len(text.encode("utf-8", "surrogateescape")) < 256)
PROPERTIES = st.builds(
    BasicProperties,
    content_type=st.none() | SHORT.filter(bool),
    content_encoding=st.none() | SHORT,
    headers=st.none() | st.dictionaries(SHORT.filter(bool), ANY_TEXTS, min_size=1, max_size=3),
    delivery_mode=st.none() | st.sampled_from([1, 2]),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | SHORT,
    reply_to=st.none() | SHORT,
    expiration=st.none() | SHORT,
    message_id=st.none() | SHORT,
    timestamp=st.none() | st.integers(0, (1 << 64) - 1),
    type=st.none() | SHORT,
    user_id=st.none() | SHORT,
    app_id=st.none() | SHORT,
    cluster_id=st.none() | SHORT,
)


@given(properties=PROPERTIES, body=st.binary(max_size=20) | ANY_TEXTS.map(lambda t: t.encode("utf-8", "replace")))
def test_any_message_of_amqp_comes_back_as_it_went_in_both_forms(properties: BasicProperties, body: bytes) -> None:
    # Header values that are octets are one text on this side, and long strings on that.
    if properties.headers:
        headers = {name: to_field(str(value)) for name, value in properties.headers.items()}
        properties = msgspec.structs.replace(properties, headers=headers)
    encoded = encode_properties(properties)
    message = message_of(decode_properties(encoded), body, address="a")
    for media in (XML, JSON):
        document = parse(render(Document(messages=(message,)), media), media)
        assert isinstance(document, Document)
        (there,) = document.messages
        found = basic_properties(there)
        assert isinstance(found, BasicProperties), found
        assert encode_properties(found) == encoded
        assert content_body(there) == ((body, properties.content_type) if there.contents else None)
        assert there.contents or not body


def to_field(value: str) -> FieldValue:
    try:
        value.encode()
    except UnicodeEncodeError:
        return Typed("S", value.encode("utf-8", "surrogateescape"))
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ö", "ö"), (b"ab", "ab"), (b"\xff", "\udcff"), (True, "true"), (False, "false"), (None, ""), (-5, "-5"),
        (1 << 63, "9223372036854775808"), (1.5, "1.5"), (float("inf"), "inf"), (Decimal("1.50"), "1.50"),
        (Timestamp(784111777), "Sun, 06 Nov 1994 08:49:37 GMT"), (Timestamp(1 << 63), "9223372036854775808"),
        (Typed("B", 7), "7"), (Typed("S", b"x"), "x"),
        ([1, "a", None, True, [b"\xff"]], '[1,"a",null,true,["\\\\xff"]]'),
        ({"a": {"b\udcff": Timestamp(0)}}, '{"a":{"b\\\\xff":"Thu, 01 Jan 1970 00:00:00 GMT"}}'),
        ([Decimal("0.1"), float("nan")], '["0.1",null]'),
    ],
)  # fmt: skip
def test_header_that_is_no_text_becomes_one(value: FieldValue, text: str) -> None:
    assert header_elements({"h": value}) == (HeaderElement("h", text),)


def test_delivery_mode_that_means_nothing_is_left_out() -> None:
    assert message_of(BasicProperties(delivery_mode=7), b"", address="").delivery_mode is None
    assert message_of(BasicProperties(delivery_mode=2), b"", address="").delivery_mode == "2"


def test_header_without_a_name_is_left_out() -> None:
    assert header_elements({"": "x", "h": "y"}) == (HeaderElement("h", "y"),)


def test_tables_that_nest_thousands_of_levels_are_cut() -> None:
    value: FieldValue = "deep"
    for _ in range(5000):
        value = [value]
    ((header),) = header_elements({"h": value})
    assert header.value == "[" * 32 + "null" + "]" * 32


@pytest.mark.parametrize("name", ["delivery_mode", "priority", "timestamp"])
def test_empty_number_is_absent(name: str) -> None:
    assert basic_properties(MessageElement(**{name: ""})) == BasicProperties()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delivery_mode", "0"), ("delivery_mode", "3"), ("delivery_mode", "persistent"), ("priority", "-1"),
        ("priority", "256"), ("priority", "٣"), ("priority", "9" * 5000), ("timestamp", "now"), ("timestamp", "-1"),
        ("timestamp", "9" * 20), ("timestamp", "9" * 5000), ("timestamp", "Wed, 31 Dec 1969 23:59:59 GMT"),
        ("message_id", "x" * 256), ("correlation_id", "ö" * 128), ("sender_id", "x" * 256), ("reply_to", "x" * 70_000),
        ("content_encoding", "x" * 256),
    ],
)  # fmt: skip
def test_property_that_amqp_has_no_room_for_is_refused(name: str, value: str) -> None:
    assert name in refused(basic_properties(MessageElement(**{name: value})))


def test_timestamp_may_be_seconds() -> None:
    found = basic_properties(MessageElement(timestamp="784111777"))
    assert isinstance(found, BasicProperties)
    assert found.timestamp == 784111777


def test_headers_have_names_and_each_name_is_there_once() -> None:
    assert headers_table((HeaderElement("a"), HeaderElement("b", ""))) == {"a": "", "b": ""}
    assert "no name" in refused(headers_table((HeaderElement(None, "v"),)))
    assert "no name" in refused(headers_table((HeaderElement("", "v"),)))
    assert "two headers 'a'" in refused(headers_table((HeaderElement("a", "1"), HeaderElement("a", "1"))))
    assert "name of a header" in refused(headers_table((HeaderElement("x" * 256, "1"),)))
    assert refused(basic_properties(MessageElement(headers=(HeaderElement("a"), HeaderElement("a")))))


def test_octets_of_a_header_go_to_amqp_as_a_long_string() -> None:
    table = headers_table((HeaderElement("a", "\udcff"),))
    assert isinstance(table, dict)
    assert encode_table(table).endswith(b"\x01aS\0\0\0\x01\xff")


def test_content_type_that_amqp_has_no_room_for_is_refused() -> None:
    assert "type of the content" in refused(
        basic_properties(MessageElement(contents=(ContentElement(type="x" * 256),)))
    )


def body_of(content: ContentElement) -> object:
    return content_body(MessageElement(contents=(content,)))


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (ContentElement(value="hi"), (b"hi", None)),
        (ContentElement(type="", encoding="", value="hi"), (b"hi", None)),
        (ContentElement(type="a/b", encoding="plain", value=" ö\n"), (" ö\n".encode(), "a/b")),
        (ContentElement(encoding="base64", value="\n      SGVs\n\t bG8=\r\n    "), (b"Hello", None)),
        (ContentElement(encoding="base64"), (b"", None)),
        (ContentElement(href="/restms/resource/x", value="passed over"), "/restms/resource/x"),
    ],
)
def test_content_is_a_body_or_an_address(content: ContentElement, body: object) -> None:
    assert body_of(content) == body


@pytest.mark.parametrize("value", ["SGVsbG8", "SGVs!bG8=", "S", "====", "SGVsbG8=SGVsbG8=", "SGVs-_8=", "ö"])
def test_base64_that_is_none_is_refused(value: str) -> None:
    assert "base64" in refused(body_of(ContentElement(encoding="base64", value=value)))


def test_encoding_that_is_not_known_is_refused() -> None:
    assert "plain or base64" in refused(body_of(ContentElement(encoding="gzip", value="x")))


def test_message_has_one_content_or_none() -> None:
    assert content_body(MessageElement()) is None
    assert "2 contents" in refused(content_body(MessageElement(contents=(ContentElement(), ContentElement()))))


@pytest.mark.parametrize("body", [b"hi", 'ö\U0001f600 <&>"\t\r\n'.encode(), b"", b"\x7f", b"]]>"])
def test_body_that_is_purely_text_is_embedded_as_text(body: bytes) -> None:
    assert embedded(body, "a/b") == ContentElement(type="a/b", encoding="plain", value=body.decode())


@pytest.mark.parametrize("body", [b"\xff", b"\0", b"a\x1b[1m", b"\xed\xa0\x80", b"\xef\xbf\xbe", b"\xef\xbf\xbf"])
def test_body_that_is_no_text_is_embedded_in_base64(body: bytes) -> None:
    assert embedded(body, "a/b") == ContentElement(type="a/b", encoding="base64", value=b64encode(body).decode())


@given(body=st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")))
def test_any_body_comes_back_as_it_was_in_both_forms(body: bytes) -> None:
    message = MessageElement(contents=(embedded(body, None),))
    for media in (XML, JSON):
        document = parse(render(Document(messages=(message,)), media), media)
        assert isinstance(document, Document)
        assert content_body(document.messages[0]) == (body, None)


def test_content_that_goes_always_has_a_type_and_an_encoding() -> None:
    # Clients of 2009 lose the text of an element without attributes.
    for media in (XML, JSON):
        body = render(Document(messages=(message_of(BasicProperties(), b"hi", address=""),)), media)
        assert b'type="" encoding="plain"' in body.replace(b'":"', b'="').replace(b'","', b'" ')


def test_message_without_a_body_has_no_content_and_says_where_it_is_where_asked() -> None:
    message = message_of(BasicProperties(), b"", address="a", redelivered=True, href="/x")
    assert message == MessageElement(href="/x", address="a", redelivered="1")
