"""Headers of data commands, octet for octet."""

from collections.abc import Callable

import pytest

from protocols.mtl.wire import (
    CONFIRM,
    CONTENT,
    DISMISS,
    LEASE,
    MESSAGES,
    REJECT,
    RESPONSE,
    SUMMON,
    TEXT_PLAIN,
    connected,
)
from triomq.errors import LocalProtocolError
from triomq.protocols.mtl import Frames, MTLDataClient, content_suffix, encode_content
from triomq.protocols.mtl.headers import (
    PING_FRAMES,
    PONG_FRAMES,
    confirm_frames,
    numbered_text_frames,
    pack_numbered,
    read_numbered_text,
    read_sequence,
    read_settlement,
    reject_frames,
    response_frames,
    text_field,
)
from triomq.protocols.mtl.properties import ContentProperties
from triomq.protocols.mtl.requests import WireFault
from triomq.protocols.properties import BasicProperties

WRITTEN: dict[str, Frames] = {
    "Lease": numbered_text_frames(1, 1, "abc123"),
    "Response": response_frames(1, 200),
    "Summon": numbered_text_frames(3, 2, "resource"),
    "Dismiss": numbered_text_frames(4, 3, "resource"),
    "Content": (
        pack_numbered(5, 1)
        + content_suffix(
            "resource", encode_content(ContentProperties(basic=BasicProperties(content_type="text/plain")))
        ),
        b"hello",
    ),
    "Confirm": confirm_frames(7, True),
    "Reject": reject_frames(8, False, True),
    "Ping": PING_FRAMES,
    "Pong": PONG_FRAMES,
}


@pytest.mark.parametrize("name", MESSAGES)
def test_command_is_written_as_the_specification_has_it(name: str) -> None:
    assert WRITTEN[name] == MESSAGES[name]


def test_commands_are_read_as_they_were_written() -> None:
    assert read_numbered_text(LEASE) == (1, "abc123")
    assert read_sequence(RESPONSE) == 1
    assert read_numbered_text(SUMMON) == (2, "resource")
    assert read_numbered_text(DISMISS) == (3, "resource")
    assert read_settlement(CONFIRM) == (7, True, False)
    assert read_settlement(REJECT) == (8, False, True)


def test_sequence_has_eight_octets_to_the_last_bit() -> None:
    highest = (1 << 64) - 1
    frames = confirm_frames(highest, False)
    assert frames[0][1:9] == b"\xff" * 8
    assert read_settlement(frames[0])[0] == highest
    for sequence in (-1, highest + 1):
        with pytest.raises(LocalProtocolError, match=r"2\*\*64"):
            confirm_frames(sequence, False)


@pytest.mark.parametrize("header", [LEASE, SUMMON, DISMISS])
def test_header_that_is_cut_or_longer_is_a_fault(header: bytes) -> None:
    for wrong in [*(header[:size] for size in range(1, len(header))), header + b"\0"]:
        with pytest.raises(WireFault, match="header"):
            read_numbered_text(wrong)


@pytest.mark.parametrize("text", [b"\0", b"a\x1f", b"\x7f", b"\xff", b"\xc3"])
def test_text_is_printable_utf8(text: bytes) -> None:
    with pytest.raises(WireFault, match="text"):
        read_numbered_text(LEASE[:9] + bytes((len(text),)) + text)


def test_text_may_have_255_octets_of_any_language() -> None:
    name = "ä" * 127 + "x"
    assert read_numbered_text(SUMMON[:9] + text_field(name)) == (2, name)
    for wrong in ("ä" * 128, "a\nb", "\x7f", "\udcff"):
        with pytest.raises(LocalProtocolError, match=r"255|control"):
            text_field(wrong)


@pytest.mark.parametrize("header", [CONFIRM, REJECT])
def test_boolean_is_zero_or_one(header: bytes) -> None:
    for wrong in (2, 255):
        with pytest.raises(WireFault, match="boolean"):
            read_settlement(header[:9] + bytes((wrong,)) + header[10:])
    for wrong_size in (header[:-1], header + b"\0"):
        with pytest.raises(WireFault, match="header"):
            read_settlement(wrong_size)


CLIENTS: dict[str, Callable[[MTLDataClient], object]] = {
    "Lease": lambda engine: engine.claim("abc123"),
    "Summon": lambda engine: engine.summon("resource"),
    "Dismiss": lambda engine: engine.dismiss("resource"),
    "Content": lambda engine: engine.send_contents(content_suffix("resource", TEXT_PLAIN), [b"hello"]),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_client_writes_the_same_but_for_its_numbers(name: str) -> None:
    engine = connected("writer" if name == "Content" else "reader")
    CLIENTS[name](engine)
    (frames,) = engine.messages_to_send()
    golden = {"Content": CONTENT}.get(name, MESSAGES[name][0])
    assert (frames[0][:1], frames[0][9:], frames[1]) == (golden[:1], golden[9:], MESSAGES[name][1])
