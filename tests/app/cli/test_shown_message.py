"""A message for people, as JSON, and its body alone."""

import msgspec
import pytest

from triomq.app.cli.shown_message import browsed, print_body, print_json, print_message, taken
from triomq.clients import Fetched
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import BasicGetOk, FramingTable
from triomq.protocols.control import MessageRecord

PROPERTIES = encode_properties(BasicProperties(type="t", headers={"n": 1, "\x1b": "\x1b"}))


def got(body: bytes) -> Fetched:
    return Fetched(None, BasicGetOk(1, True, "shop", "k", 0), FramingTable().joined(PROPERTIES), PROPERTIES + body)


def record(body: bytes, size: int, properties: bytes | None = b"\0\0") -> MessageRecord:
    return MessageRecord(7, "", "q\x1b", False, 0, size, body, properties)


def test_taken_message_is_shown_with_its_properties(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(taken(got(b"a\nb")), 3)
    assert capsys.readouterr().out.splitlines() == [
        "[3] exchange shop, key k, 3 B, redelivered",
        "    type: t",
        "    header n: 1",
        r"    header \x1b: \x1b",
        "a",
        "b",
    ]


def test_browsed_message_has_its_number_and_shows_that_it_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_message(browsed(record(b"abc", 5000, None)), 1)
    assert capsys.readouterr().out.splitlines() == [
        r"[7] default exchange, key q\x1b, 4.9 KiB",
        "    properties: too long to be browsed; get shows them",
        "abc",
        "    … 3 B of 4.9 KiB; get shows all",
    ]


def test_json_has_text_as_text_and_other_bodies_as_base64(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for message in (taken(got("blå".encode())), browsed(record(b"\xff", 1)), browsed(record(b"ab", 9))):
        print_json(message)
    text, octets, cut = map(msgspec.json.decode, capsysbinary.readouterr().out.splitlines())
    assert text == {
        "exchange": "shop",
        "routing_key": "k",
        "redelivered": True,
        "size": 4,
        "properties": {"type": "t", "headers": {"n": 1, "\x1b": "\x1b"}},
        "body": "blå",
    }
    assert (octets["id"], octets["body_base64"], "body" in octets) == (7, "/w==", False)
    assert (cut["body"], cut["size"], cut["body_cut"]) == ("ab", 9, True)


def test_body_alone_is_printed_as_it_is(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    print_body(taken(got(b"\xff\x00")), end=b"\n")
    assert capsysbinary.readouterr().out == b"\xff\x00\n"
