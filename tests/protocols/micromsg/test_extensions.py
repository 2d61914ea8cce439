"""Lists of extensions: the specification's own examples, what is passed over, and what is refused."""

import pytest

from protocols.micromsg.wire import named
from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.extensions import (
    HandshakeExtension,
    check_own_extension,
    find_extension,
    format_extensions,
    parse_extensions,
)


def test_extensions_of_the_specification_are_read() -> None:
    first = b"extension-name1:propname1=value2,propname2=Hello%20%25%20mother!;"
    assert parse_extensions(first) == (
        HandshakeExtension("extension-name1", {"propname1": "value2", "propname2": "Hello % mother!"}),
    )
    assert parse_extensions(b"json;xml;protobuf") == named("json", "xml", "protobuf")
    (batch, other) = parse_extensions(b"batch-ack:max-count=10;microauth")
    assert (batch.window, other.window) == (10, None)


def test_colon_stands_for_the_equals_sign_where_that_is_missing() -> None:
    (found,) = parse_extensions(b"batch-ack:max-count:100;")
    assert found.window == 100


def test_blanks_and_empty_items_are_passed_over() -> None:
    found = parse_extensions(b" json ;; batch-ack: max-count = 7 ,, ;")
    assert found == (HandshakeExtension("json"), HandshakeExtension("batch-ack", {"max-count": "7"}))
    assert parse_extensions(b"") == ()


def test_first_of_two_extensions_counts() -> None:
    (found,) = parse_extensions(b"ack:count=3;ack:count=5")
    assert found.window == 3


def test_pub_sub_has_two_names() -> None:
    found = parse_extensions(b"pubsub;json")
    assert found[0].canonical == "pub-sub"
    assert find_extension(found, "pub-sub") is found[0]
    assert find_extension(found, "x-none") is None


@pytest.mark.parametrize(
    ("octets", "window"),
    [
        (b"batch-ack:count=4", 4),
        (b"batch-ack:batch-max=4", 4),
        (b"ack:MessagesPerAck=10,AckExpireTime=1000", 10),
        (b"ack:messagesperack=10,MAX-COUNT=5", 5),
        (b"ack:count=4,batch-max=5", 4),
        (b"batch-ack:max-count=32767", 32767),
    ],
)
def test_count_has_several_names(octets: bytes, window: int) -> None:
    (found,) = parse_extensions(octets)
    assert found.window == window


def test_sharpmessaging_is_known_by_its_count() -> None:
    assert parse_extensions(b"ack:MessagesPerAck=10,AckExpireTime=1000")[0].is_sharpmessaging
    assert not parse_extensions(b"ack:max-count=10")[0].is_sharpmessaging


@pytest.mark.parametrize("count", ["0", "-1", "ten", "", "32768", "99999999999999", "٣"])
def test_count_is_a_number_of_messages(count: str) -> None:
    with pytest.raises(PeerError, match="it takes 1 to 32767"):
        _ = HandshakeExtension("batch-ack", {"max-count": count}).window


def test_interval_is_milliseconds() -> None:
    assert HandshakeExtension("x-heartbeat", {"interval": "1500"}).interval == 1.5
    assert HandshakeExtension("x-heartbeat").interval == 0
    with pytest.raises(PeerError, match="100 to 86400000"):
        _ = HandshakeExtension("x-heartbeat", {"interval": "10"}).interval


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"ack:max", "is no name=value"),
        (b"ack:=5", "is no name=value"),
        (b"x-a:b=%4", "is no escape"),
        (b"x-a:b=%zz", "is no escape"),
        (b"x-a:b=%ff", "not UTF-8"),
        (b"j\xc3\xb6n", "not ASCII"),
        (b";".join(b"x-%d" % number for number in range(256)), "at most 255"),
    ],
)
def test_what_is_no_list_is_refused(octets: bytes, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        parse_extensions(octets)
    assert caught.value.code == 400


def test_extensions_are_written_strictly() -> None:
    octets = b"batch-ack:max-count=10;x-mine:color=light%20red,size=%2B5;json"
    assert format_extensions(parse_extensions(octets)) == octets
    assert format_extensions(()) == b""


@pytest.mark.parametrize("name", ["mine", "X-mine", "x-mi/ne", "", "pubsub"])
def test_own_extensions_begin_with_x(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="begin with x-"):
        check_own_extension(HandshakeExtension(name))


def test_properties_of_own_extensions_can_be_written() -> None:
    check_own_extension(HandshakeExtension("x-mine", {"a-1": "anything; at = all, ö"}))
    with pytest.raises(LocalProtocolError, match="no property of extension x-mine"):
        check_own_extension(HandshakeExtension("x-mine", {"a b": ""}))
