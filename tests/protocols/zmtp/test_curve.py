"""CURVE: between two engines, with libzmq, and with whatever is not in order."""

import sys
import threading

import pytest
import zmq

from protocols.zmtp.test_libzmq import Make, connecting, listening, make
from protocols.zmtp.wire import client, command, happened, said, server, talk
from triomq.errors import ConfigError, LocalProtocolError
from triomq.protocols.zmtp import (
    ErrorReceived,
    Failed,
    KeyShown,
    MessagesReceived,
    Opened,
    TopicSubscribed,
    ZMTPClientEngine,
    ZMTPServerEngine,
    curve,
    decode_key,
    encode_key,
    public_key_of,
)

__all__ = ["make"]

OURS, THEIRS = bytes(range(32)), bytes(range(1, 33))
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)


def serving(**settings: object) -> ZMTPServerEngine:
    return server(mechanism="CURVE", secret_key=THEIRS, **settings)


def coming(server_key: bytes = b"", **settings: object) -> ZMTPClientEngine:
    return client(mechanism="CURVE", secret_key=OURS, server_key=server_key or public_key_of(THEIRS), **settings)


def both(**settings: object) -> tuple[ZMTPClientEngine, ZMTPServerEngine]:
    """Return two engines whose connection is open."""
    ours, theirs = coming(), serving(**settings)
    talk(ours, theirs)
    assert happened(theirs) == [KeyShown(public_key_of(OURS))]
    theirs.accept()
    talk(ours, theirs)
    assert happened(ours) == [Opened("ROUTER", b"", (3, 1))]
    assert happened(theirs) == [Opened("DEALER", b"", (3, 1))]
    return ours, theirs


def test_both_sides_seal_messages_and_commands() -> None:
    ours, theirs = both()
    messages = [[b"", b"secret word", b"x" * 70_000], [b""], [b"a"] * 9]
    ours.send_all(messages)
    octets = said(ours)
    assert b"secret word" not in octets
    theirs.receive_data(octets)
    theirs.send_all(messages)
    talk(ours, theirs)
    assert [m for event in happened(theirs) if isinstance(event, MessagesReceived) for m in event.messages] == messages
    assert [m for event in happened(ours) if isinstance(event, MessagesReceived) for m in event.messages] == messages


def test_key_of_nobody_is_refused() -> None:
    ours, theirs = coming(), serving()
    talk(ours, theirs)
    theirs.refuse()
    talk(ours, theirs)
    assert happened(ours) == [ErrorReceived("400")]


def test_server_with_another_key_is_not_what_the_client_means() -> None:
    ours, theirs = coming(server_key=public_key_of(OURS)), serving()
    talk(ours, theirs)
    assert [event.code for event in happened(theirs) if isinstance(event, Failed)] == ["MALFORMED"]


@pytest.mark.parametrize("place", [9, 60, 100, 150, -1])
def test_word_of_a_handshake_that_was_damaged_ends_the_connection(place: int) -> None:
    for words in range(2):
        ours, theirs = coming(), serving()
        ours.receive_data(said(theirs))
        octets = said(ours)
        if words:
            theirs.receive_data(octets)
            ours.receive_data(said(theirs))
            octets = said(ours)
            damaged = bytearray(octets)
        else:
            damaged = bytearray(octets[64:])
        damaged[place] ^= 1
        theirs.receive_data(bytes(damaged) if words else octets[:64] + bytes(damaged))
        assert [type(event) for event in happened(theirs)] in ([Failed], [])
        assert not theirs.is_open


def test_frame_that_was_damaged_or_comes_twice_ends_the_connection() -> None:
    for spoil in (lambda octets: octets[:-1] + bytes([octets[-1] ^ 1]), lambda octets: octets * 2):
        ours, theirs = both()
        ours.send([b"once"])
        theirs.receive_data(spoil(said(ours)))
        assert isinstance(happened(theirs)[-1], Failed)


def test_plain_frames_and_commands_on_a_sealed_connection_end_it() -> None:
    for octets in (b"\x00\x05plain", command(b"PING", b"\0\0"), b"\x01\x00\x00\x00", b"\x00\x00"):
        _, theirs = both()
        theirs.receive_data(octets)
        assert isinstance(happened(theirs)[-1], Failed)


def test_limits_hold_behind_the_box_too() -> None:
    ours, theirs = both(max_message=10_000)
    ours.send([bytes(4000)] * 3)
    theirs.receive_data(said(ours))
    assert [event.code for event in happened(theirs) if isinstance(event, Failed)] == ["TOO_LARGE"]
    ours, theirs = both()
    ours.send([b"x"] * 70)
    theirs.receive_data(said(ours))
    assert happened(theirs) == [MessagesReceived([[b"x"] * 64])]


def test_ping_and_subscriptions_are_sealed() -> None:
    ours, theirs = coming(socket_type="SUB"), serving(socket_type="XPUB", heartbeat=2.0)
    talk(ours, theirs)
    theirs.accept()
    talk(ours, theirs)
    happened(theirs)
    ours.subscribe(b"topic")
    octets = said(ours)
    assert b"SUBSCRIBE" not in octets
    theirs.receive_data(octets)
    assert happened(theirs) == [TopicSubscribed(b"topic")]
    theirs.handle_timer(0.0)
    theirs.handle_timer(1.0)
    octets = said(theirs)
    assert octets
    assert b"PING" not in octets
    ours.receive_data(octets)
    theirs.receive_data(said(ours))
    assert not theirs.outbox.finished


def test_keys_are_texts_of_forty_characters() -> None:
    public, secret = zmq.curve_keypair()
    assert encode_key(decode_key(public.decode())) == public.decode()
    assert encode_key(public_key_of(decode_key(secret.decode()))) == public.decode()
    for wrong in ("a" * 39, "~" * 40, "#" * 40):
        with pytest.raises(ValueError, match="no text of Z85"):
            decode_key(wrong)
    with pytest.raises(LocalProtocolError, match="32 octets"):
        server(mechanism="CURVE")


def test_without_the_library_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nacl", None)
    curve._sodium.cache_clear()
    with pytest.raises(ConfigError, match=r"pip install 'triomq\[curve\]'"):
        serving()


def test_dealer_of_libzmq_is_served(make: Make) -> None:
    dealer = make(zmq.DEALER)
    public, secret = zmq.curve_keypair()
    dealer.curve_publickey, dealer.curve_secretkey = public, secret
    dealer.curve_serverkey = encode_key(public_key_of(THEIRS)).encode()
    engine = serving()
    with listening(dealer.connect, engine) as wire:
        assert wire.next() == KeyShown(decode_key(public.decode()))
        engine.accept()
        assert wire.next() == Opened("DEALER", b"", (3, 1))
        dealer.send_multipart([b"", b"x" * 70_000])
        assert wire.next() == MessagesReceived([[b"", b"x" * 70_000]])
        engine.send_all([[b"a", b"b" * 300], [b""]])
        wire.flush()
        assert [dealer.recv_multipart(), dealer.recv_multipart()] == [[b"a", b"b" * 300], [b""]]


def test_router_of_libzmq_serves_us(make: Make) -> None:
    judge = make(zmq.REP)
    judge.bind("inproc://zeromq.zap.01")

    def answer() -> None:
        version, request, *_, key = judge.recv_multipart()
        status = b"200" if key == public_key_of(OURS) else b"400"
        judge.send_multipart([version, request, status, b"", b"ada", b""])

    judging = threading.Thread(target=answer)
    judging.start()
    router = make(zmq.ROUTER)
    router.curve_server, router.curve_secretkey = True, encode_key(THEIRS).encode()
    engine = coming(identity=b"me")
    with connecting(router, engine) as wire:
        assert wire.next() == Opened("ROUTER", b"", (3, 1))
        engine.send([b"", b"x" * 300])
        wire.flush()
        assert router.recv_multipart() == [b"me", b"", b"x" * 300]
        router.send_multipart([b"me", b"back"])
        assert wire.next() == MessagesReceived([[b"back"]])
    judging.join()
