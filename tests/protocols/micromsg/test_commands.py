"""Commands, their answers, and the frames of a log-in."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg import CommandAnswered, FilterCondition, SASLStarted, SubscribeAsked, UnsubscribeAsked
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.commands import (
    answer_payload,
    parse_answer,
    parse_command,
    parse_start,
    start_payload,
    subscribe_command,
    unsubscribe_command,
)


def parse(octets: bytes) -> SubscribeAsked | UnsubscribeAsked:
    return parse_command(octets, 7, 16)


def test_subscribe_has_destination_filter_and_id() -> None:
    octets = b"subscribe;destination=topic%2Forders,filter=priority%3EN5,id=s1"
    conditions = (FilterCondition("priority", "greater", 5),)
    assert parse(octets) == SubscribeAsked(7, "topic/orders", conditions, "s1")
    assert subscribe_command("topic/orders", conditions, "s1") == octets


def test_escapes_of_a_filter_are_inside_those_of_the_command() -> None:
    conditions = (FilterCondition("name", "equal", "a;b,c=d"), FilterCondition("x", "lacks", "%"))
    octets = subscribe_command("t", conditions, "")
    assert octets == b"subscribe;destination=t,filter=name%3DTa%253Bb%252Cc%253Dd%3Bx~T%2525"
    assert parse(octets) == SubscribeAsked(7, "t", conditions)


def test_unsubscribe_names_a_destination_or_an_id() -> None:
    assert parse(b"unsubscribe;id=s1") == UnsubscribeAsked(7, "", "s1")
    assert parse(unsubscribe_command("topic/orders", "")) == UnsubscribeAsked(7, "topic/orders")
    with pytest.raises(PeerError, match="names nothing"):
        parse(b"unsubscribe")
    with pytest.raises(LocalProtocolError):
        unsubscribe_command("", "")


def test_names_are_read_in_any_case_and_with_blanks() -> None:
    assert parse(b" SUBSCRIBE ; Destination = orders ,; ") == SubscribeAsked(7, "orders")


def test_further_keys_are_options() -> None:
    octets = b"subscribe;destination=orders,color=light%20red"
    assert parse(octets) == SubscribeAsked(7, "orders", (), "", {"color": "light red"})
    assert subscribe_command("orders", (), "", {"color": "light red"}) == octets
    for key in ("id", "a b", ""):
        with pytest.raises(LocalProtocolError, match="is no option of a subscription"):
            subscribe_command("orders", (), "", {key: "x"})


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (b"", 501),
        (b"publish;destination=a", 501),
        (b"subscribe", 400),
        (b"subscribe;", 400),
        (b"subscribe;destination", 400),
        (b"subscribe;=a", 400),
        (b"subscribe;destination=a,destination=b", 400),
        (b"subscribe;destination=%4", 400),
        (b"subscribe;destination=\xc3\xb6", 400),
        (b"subscribe;destination=a,filter=a%3C%3DTx", 400),
    ],
)
def test_what_is_no_command_is_refused(octets: bytes, code: int) -> None:
    with pytest.raises(PeerError) as caught:
        parse(octets)
    assert caught.value.code == code


def test_command_is_no_longer_than_servers_take() -> None:
    with pytest.raises(LocalProtocolError, match="servers take 16384"):
        subscribe_command("x" * 17000, (), "")
    with pytest.raises(LocalProtocolError, match="needs a destination"):
        subscribe_command("", (), "")


def test_answer_has_the_number_of_its_command() -> None:
    assert answer_payload(258, 200, "done") == b"\x01\x02200 done"
    assert parse_answer(b"\x01\x02200 done") == CommandAnswered(258, 200, "done")
    assert parse_answer(b"\x00\x01404") == CommandAnswered(1, 404, "")
    assert len(answer_payload(1, 400, "x" * 5000)) == 2 + 1028
    with pytest.raises(PeerError, match="is no answer"):
        parse_answer(b"\x00\x01done")


def test_log_in_begins_with_a_mechanism() -> None:
    assert start_payload("PLAIN", b"\0a\0b") == b"\1PLAIN\0\0a\0b"
    assert parse_start(b"PLAIN\0\0a\0b") == SASLStarted("PLAIN", b"\0a\0b")
    for octets in (b"", b"PLAIN", b"\0x", b"\xff\0x"):
        with pytest.raises(PeerError, match="names no mechanism"):
            parse_start(octets)
    for name in ("", "a\0b", "ö"):
        with pytest.raises(LocalProtocolError):
            start_payload(name, b"")
