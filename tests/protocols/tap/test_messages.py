"""Each message in its exact bytes, which any other program may write; and what is none."""

import msgspec
import pytest

from protocols.tap.wire import framed
from triomq.protocols.tap import (
    CLIENT_MESSAGES,
    SERVER_MESSAGES,
    AbortAsked,
    AckAsked,
    BoundsAnswered,
    ChallengeAnswered,
    ClientGreeting,
    CommitAsked,
    DoneAnswered,
    FetchAsked,
    GroupPosition,
    LeaseAsked,
    LeasedAnswered,
    ListAsked,
    LoginChallenged,
    LoginRequested,
    OffsetsAsked,
    PartitionBounds,
    PingAsked,
    RecordsAnswered,
    RequestRefused,
    ServerClosing,
    ServerGreeting,
    StageAsked,
    StreamsAnswered,
    TapMessage,
    Welcomed,
)
from triomq.protocols.tap.frames import frame
from triomq.protocols.tap.messages import ClientMessage, ServerMessage

CLIENT_VECTORS: list[tuple[TapMessage, str]] = [
    (ClientGreeting("tap", 1, "x"), "94 00 a3746170 01 a178"),
    (LoginRequested("PLAIN", b"\0ada\0pw", "shop"), "94 01 a5504c41494e c40700616461007077 a473686f70"),
    (ChallengeAnswered(b"abc"), "92 02 c403616263"),
    (PingAsked(1), "92 10 01"),
    (OffsetsAsked(2, "orders", "g"), "95 11 02 a66f7264657273 a167 c0"),
    (OffsetsAsked(2, "orders", "", 500), "95 11 02 a66f7264657273 a0 cd01f4"),
    (
        FetchAsked(3, "orders", 1, 0xFEDCBA9876543210, 500, 600, 65536, 1000),
        "9a 12 03 a66f7264657273 01 cffedcba9876543210 cd01f4 cd0258 ce00010000 cd03e8 a0",
    ),
    (FetchAsked(3, "o", 0, None, 0, group="g"), "9a 12 03 a16f 00 c0 00 c0 ce00100000 00 a167"),
    (
        AckAsked(4, "orders", "g", {0: GroupPosition(None, 7), 1: GroupPosition(5, 8)}),
        "95 13 04 a66f7264657273 a167 82 00 92c007 01 920508",
    ),
    (
        StageAsked(5, "orders", False, "q/s", 9, 2, 1, b"TMQC"),
        "99 14 05 a66f7264657273 c2 a3712f73 09 02 01 c404544d5143",
    ),
    (CommitAsked(6, "orders", False, "q/s", 9, {0: 0, 2: 1}), "97 15 06 a66f7264657273 c2 a3712f73 09 82 0000 0201"),
    (AbortAsked(7, "orders", True, "q/s", 9), "98 16 07 a66f7264657273 c3 a3712f73 09 c0 c0"),
    (AbortAsked(7, "orders", False, "q/s", 9, 2, 1), "98 16 07 a66f7264657273 c2 a3712f73 09 02 01"),
    (ListAsked(8), "92 17 08"),
    (LeaseAsked(9, "jobs", "g", 500, 65536), "96 18 09 a46a6f6273 a167 cd01f4 ce00010000"),
]

SERVER_VECTORS: list[tuple[TapMessage, str]] = [
    (ServerGreeting("tap", 1, "x", ("PLAIN",)), "95 00 a3746170 01 a178 91 a5504c41494e"),
    (LoginChallenged(b"abc"), "92 01 c403616263"),
    (Welcomed(16 << 20), "92 02 ce01000000"),
    (ServerClosing("DENIED", "no"), "93 03 a644454e494544 a26e6f"),
    (DoneAnswered(1), "92 10 01"),
    (
        BoundsAnswered(2, (PartitionBounds(5, 0, 10), PartitionBounds(6, 3, 9, 4))),
        "93 11 02 92 94 05000ac0 94 06030904",
    ),
    (RecordsAnswered(3, PartitionBounds(5, 0, 10), memoryview(b"TMQC")), "94 12 03 94 05000ac0 c404544d5143"),
    (
        RequestRefused(4, "OUT_OF_RANGE", "x", PartitionBounds(5, 7, 9)),
        "95 13 04 ac4f55545f4f465f52414e4745 a178 94 050709c0",
    ),
    (RequestRefused(4, "REFUSED", "x"), "95 13 04 a752454655534544 a178 c0"),
    (LeasedAnswered(6, PartitionBounds(5, 7, 9), 3), "94 15 06 94 050709c0 03"),
    (StreamsAnswered(5, ("a", "orders")), "93 14 05 92 a161 a66f7264657273"),
]


@pytest.mark.parametrize(("message", "octets"), CLIENT_VECTORS, ids=[type(row[0]).__name__ for row in CLIENT_VECTORS])
def test_message_of_a_client_stands_on_the_wire_as_the_reference_says(message: TapMessage, octets: str) -> None:
    body = bytes.fromhex(octets)
    assert frame(message) == len(body).to_bytes(4, "big") + body
    assert msgspec.msgpack.decode(body, type=ClientMessage) == message


@pytest.mark.parametrize(("message", "octets"), SERVER_VECTORS, ids=[type(row[0]).__name__ for row in SERVER_VECTORS])
def test_message_of_a_server_stands_on_the_wire_as_the_reference_says(message: TapMessage, octets: str) -> None:
    body = bytes.fromhex(octets)
    assert frame(message) == len(body).to_bytes(4, "big") + body
    assert msgspec.msgpack.decode(body, type=ServerMessage) == message


def test_every_message_has_a_vector() -> None:
    assert {type(message) for message, _ in CLIENT_VECTORS} == set(CLIENT_MESSAGES)
    assert {type(message) for message, _ in SERVER_VECTORS} == set(SERVER_MESSAGES)


@pytest.mark.parametrize("kinds", [CLIENT_MESSAGES, SERVER_MESSAGES])
def test_every_kind_has_a_number_of_its_own(kinds: tuple[type[TapMessage], ...]) -> None:
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(set(tags)) == len(tags)


def test_fields_with_a_default_may_be_left_out() -> None:
    body = framed(18, 3, "o", 0, None, 0)[4:]
    assert msgspec.msgpack.decode(body, type=ClientMessage) == FetchAsked(3, "o", 0, None, 0)


@pytest.mark.parametrize(
    "fields",
    [
        (),
        (99, 1),
        ("PING", 1),
        (16,),
        (16, -1),
        (16, 1 << 32),
        (16, True),
        (16, 1.0),
        (16, 1, 1),
        (17, 1, ""),
        (17, 1, "x" * 256),
        (18, 1, "o", 0, None, 1 << 63),
        (18, 1, "o", 0, -1, 0),
        (19, 1, "o", "", {}),
        (19, 1, "o", "g", dict.fromkeys(range(4097), (None, 0))),
        (19, 1, "o", "g", {0: (None, 0, 0)}),
        (21, 1, "o", False, "w", 0, dict.fromkeys(range(65537), 0)),
        (21, 1, "o", 0, "w", 0, {}),
        (23, 1, "o"),
        (24, 1, "q", "", 1, 1),
        (24, 1, "", "g", 1, 1),
        (0, "tip", 1),
        (0, "tap"),
        (0, "tap", 0),
    ],
)
def test_what_does_not_fit_is_no_message(fields: tuple[object, ...]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(framed(*fields)[4:], type=ClientMessage)


def test_representation_shows_no_secret() -> None:
    assert "secret" not in repr(LoginRequested("PLAIN", b"secret")) + repr(ChallengeAnswered(b"secret"))
