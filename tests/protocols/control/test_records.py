"""What a broker tells about itself, in JSON."""

import msgspec

from triomq.protocols.control import MessageRecord, Page, SinkRecord

MESSAGE = MessageRecord(7, "", "q", False, 0, 2, b"\xff\x00", b"\0\0")


def test_octets_are_base64() -> None:
    found = msgspec.json.decode(msgspec.json.encode(MESSAGE))
    assert (found["body"], found["properties"]) == ("/wA=", "AAA=")
    assert msgspec.convert(found, MessageRecord) == MESSAGE


def test_fields_that_a_newer_broker_adds_are_passed_over() -> None:
    found = msgspec.to_builtins(Page([SinkRecord("s", "direct", "running", 0, True, False, False)], "s"))
    found["items"][0]["colour"] = found["pages"] = "blue"
    page = msgspec.convert(found, Page[SinkRecord])
    assert (page.items[0].name, page.next) == ("s", "s")
