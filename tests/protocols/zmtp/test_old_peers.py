"""Peers that speak ZMTP 1.0 and 2.0: ZeroMQ before 4.0."""

import pytest

from protocols.zmtp.wire import GREETING, command, happened, message, ready, said, server
from triomq.protocols.zmtp import Failed, MessagesReceived, Opened, ZMTPServerEngine

SIGNATURE = b"\xff" + bytes(7) + b"\x01\x7f"


def old_message(*frames: bytes) -> bytes:
    """Return a message of ZMTP 1.0, whose lengths count the flags that follow."""
    wire = b""
    for number, frame in enumerate(frames, 1):
        size = len(frame) + 1
        wire += bytes([size]) if size < 255 else b"\xff" + size.to_bytes(8, "big")
        wire += bytes([number < len(frames)]) + frame
    return wire


def fed(engine: ZMTPServerEngine, octets: bytes, step: int) -> None:
    for place in range(0, len(octets), step):
        engine.receive_data(octets[place : place + step])


@pytest.mark.parametrize("step", [1, 1000])
def test_peer_of_version_1_is_served(step: int) -> None:
    engine = server(old_peers=True)
    assert said(engine) == SIGNATURE  # for such a peer: the head of an identity's frame, which is empty
    sent = [[b"", b"x" * 300, b"y"], [b"z"]]
    fed(engine, old_message(b"me") + b"".join(old_message(*frames) for frames in sent), step)
    opened, *received = happened(engine)
    assert opened == Opened("", b"me", (1, 0))
    assert [m for event in received if isinstance(event, MessagesReceived) for m in event.messages] == sent
    engine.send_all(sent)
    assert said(engine) == b"".join(old_message(*frames) for frames in sent)


@pytest.mark.parametrize("step", [1, 1000])
def test_peer_of_version_2_is_served(step: int) -> None:
    engine = server(old_peers=True)
    said(engine)
    fed(engine, SIGNATURE, step)
    assert said(engine) == b"\x03"
    fed(engine, b"\x01\x05" + message(b"me") + message(b"", b"x" * 300), step)
    assert happened(engine) == [Opened("", b"me", (2, 0)), MessagesReceived([[b"", b"x" * 300]])]
    assert said(engine) == b"\x06\x00\x00"  # a ROUTER, without an identity
    engine.send([b"a", b""])
    assert said(engine) == message(b"a", b"")


def test_peers_of_version_3_do_not_notice() -> None:
    engine = server(old_peers=True)
    fed(engine, GREETING + ready(), 1)
    assert happened(engine) == [Opened("DEALER", b"", (3, 1))]
    assert said(engine)[:64] == said(server())[:64].replace(bytes(9) + b"\x7f", bytes(9) + b"\x7f")


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (old_message(b"") + b"\x00", "MALFORMED"),
        (old_message(b"") + b"\xff" + b"\xff" * 8, "TOO_LARGE"),
        (b"\xff" + (1 << 20).to_bytes(8, "big") + b"\x00", "UNFIT"),
        (old_message(bytes(250)) + b"\x05\x00abcd", None),
        (SIGNATURE + b"\x01\x02", "UNFIT"),
        (SIGNATURE + b"\x01\x05" + command(b"READY"), "MALFORMED"),
        (SIGNATURE + b"\x01\x05" + message(b"") + command(b"PING", b"\0\0"), "MALFORMED"),
    ],
    ids=[
        "a frame without flags",
        "a frame without an end",
        "a long identity",
        "a short one",
        "a SUB",
        "a command in place of an identity",
        "a command later",
    ],
)
def test_what_is_malformed_ends_the_connection(octets: bytes, code: str | None) -> None:
    engine = server(old_peers=True)
    engine.receive_data(octets)
    assert [event.code for event in happened(engine) if isinstance(event, Failed)] == ([code] if code else [])


def test_old_peers_are_asked_nothing_and_their_silence_is_borne() -> None:
    engine = server(old_peers=True, heartbeat=1.0)
    engine.receive_data(old_message(b""))
    happened(engine)
    said(engine)
    for now in range(20):
        engine.handle_timer(float(now))
    assert (said(engine), happened(engine), engine.is_open) == (b"", [], True)


def test_old_peers_are_not_served_where_they_are_not_wanted() -> None:
    for octets in (old_message(b"me"), SIGNATURE + b"\x01\x05"):
        engine = server()
        engine.receive_data(octets)
        assert [event.code for event in happened(engine) if isinstance(event, Failed)] == ["UNFIT"]
