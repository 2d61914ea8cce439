"""What libzmq 4.3.5 was seen to write, octet by octet, is read as what it means."""

import pytest

from protocols.zmtp.wire import client, command, happened, properties, said, server
from triomq.protocols.zmtp import (
    ErrorReceived,
    LoginRequested,
    MessagesReceived,
    Opened,
    TopicCancelled,
    TopicSubscribed,
)


def octets(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


SIGNATURE = octets("ff 0000000000000001 7f")
NULL = octets("03 01 4e554c4c" + "00" * 16 + "00" + "00" * 31)
PLAIN = octets("03 01 504c41494e" + "00" * 15 + "00" + "00" * 31)
DEALER = octets("0b536f636b65742d54797065 00000006 4445414c4552 084964656e74697479 00000000")
NAMED = octets("0b536f636b65742d54797065 00000006 4445414c4552 084964656e74697479 00000002 6d65")
REQ = octets("0b536f636b65742d54797065 00000003 524551 084964656e74697479 00000000")
SUB = octets("0b536f636b65742d54797065 00000003 535542")
READY = octets("05 5245414459")


def test_dealer_with_a_name() -> None:
    engine = server()
    engine.receive_data(octets("ff 0000000000000003 7f") + NULL + octets("04 2b") + READY + NAMED)
    engine.receive_data(octets("01 00 00 05 68656c6c6f 02 0000000000000100") + b"x" * 256)
    assert happened(engine) == [
        Opened("DEALER", b"me", (3, 1)),
        MessagesReceived([[b"", b"hello"], [b"x" * 256]]),
    ]


def test_req() -> None:
    engine = server()
    engine.receive_data(SIGNATURE + NULL + octets("04 26") + READY + REQ + octets("01 00 00 01 71"))
    assert happened(engine) == [Opened("REQ", b"", (3, 1)), MessagesReceived([[b"", b"q"]])]


def test_password() -> None:
    engine = server(mechanism="PLAIN")
    engine.receive_data(SIGNATURE + PLAIN + octets("04 11 05 48454c4c4f 03 616461 06 736563726574"))
    assert happened(engine) == [LoginRequested("ada", b"secret")]
    engine.accept()
    engine.receive_data(octets("04 2c 08 494e495449415445") + DEALER + octets("00 02 6869"))
    assert happened(engine) == [Opened("DEALER", b"", (3, 1)), MessagesReceived([[b"hi"]])]


@pytest.mark.parametrize(
    ("subscribe", "cancel"),
    [("04 0c 09 535542534352494245 612e", "04 09 06 43414e43454c 612e"), ("00 03 01612e", "00 03 00612e")],
    ids=["to a peer of 3.1", "to one of 3.0"],
)
def test_subscriptions(subscribe: str, cancel: str) -> None:
    engine = server(socket_type="XPUB")
    engine.receive_data(SIGNATURE + NULL + octets("04 19") + READY + SUB + octets(subscribe) + octets(cancel))
    assert happened(engine) == [Opened("SUB", b"", (3, 1)), TopicSubscribed(b"a."), TopicCancelled(b"a.")]


def test_heartbeats() -> None:
    engine = server()
    engine.receive_data(SIGNATURE + NULL + octets("04 29") + READY + DEALER + octets("04 07 04 50494e47 001e"))
    assert said(engine).endswith(octets("04 05 04 504f4e47"))
    engine.handle_timer(10.0)
    assert engine.next_timer() == 11.5  # half of 3.0, which is 30 tenths


def test_context_comes_back_as_libzmq_sends_it_back() -> None:
    engine = server()
    engine.receive_data(SIGNATURE + NULL + octets("04 29") + READY + DEALER)
    said(engine)
    engine.receive_data(command(b"PING", b"\0\0" + b"0123456789abcdefgh"))
    assert said(engine) == octets("04 15 04 504f4e47 30313233343536373839616263646566")


def test_peers_that_were_met_as_old_ones() -> None:
    engine = server(old_peers=True)
    engine.receive_data(octets("ff 0000000000000003 7f") + octets("01 05 00 02 6d65 01 00 00 05 68656c6c6f"))
    assert happened(engine) == [Opened("", b"me", (2, 0)), MessagesReceived([[b"", b"hello"]])]


def test_error_of_plain_has_a_name_that_is_misspelt() -> None:
    engine = client(mechanism="PLAIN", user="ada", password="wrong")
    engine.receive_data(SIGNATURE + PLAIN + octets("04 09 5e 52524f52 03 343030"))
    assert happened(engine) == [ErrorReceived("400")]


def test_what_we_write_is_what_libzmq_writes_but_for_the_filler() -> None:
    engine = client(identity=b"me")
    engine.receive_data(SIGNATURE + NULL)
    assert said(engine) == SIGNATURE + NULL + octets("04 2b") + READY + NAMED
    engine.receive_data(command(b"READY", properties(Socket_Type=b"ROUTER", Identity=b"")))
    engine.send_all([[b"", b"hello"], [b"x" * 256]])
    assert said(engine) == octets("01 00 00 05 68656c6c6f 02 0000000000000100") + b"x" * 256
    engine = client(mechanism="PLAIN", user="ada", password="secret")
    engine.receive_data(SIGNATURE + PLAIN + command(b"WELCOME"))
    hello, initiate = octets("04 11 05 48454c4c4f 03 616461 06 736563726574"), octets("04 2c 08 494e495449415445")
    assert said(engine) == SIGNATURE + PLAIN + hello + initiate + DEALER
