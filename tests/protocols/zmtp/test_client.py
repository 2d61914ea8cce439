"""The side that connects, mostly to an engine of the other side."""

import pytest

from protocols.zmtp.wire import GREETING, PLAIN_GREETING, client, command, happened, message, ready, said, server, talk
from triomq.errors import LocalProtocolError
from triomq.protocols.zmtp import (
    ErrorReceived,
    Failed,
    LoginRequested,
    MessagesReceived,
    Opened,
    TopicCancelled,
    TopicSubscribed,
)


def test_two_sides_of_null_open_and_carry_messages_both_ways() -> None:
    ours, theirs = client(identity=b"me"), server()
    talk(ours, theirs)
    assert happened(ours) == [Opened("ROUTER", b"", (3, 1))]
    assert happened(theirs) == [Opened("DEALER", b"me", (3, 1))]
    ours.send([b"", b"to", bytes(100_000)])
    theirs.send([b"back"])
    talk(ours, theirs)
    assert happened(theirs) == [MessagesReceived([[b"", b"to", bytes(100_000)]])]
    assert happened(ours) == [MessagesReceived([[b"back"]])]


def test_client_of_plain_is_let_in() -> None:
    ours, theirs = client(mechanism="PLAIN", user="ada", password="secret"), server(mechanism="PLAIN")
    talk(ours, theirs)
    assert happened(theirs) == [LoginRequested("ada", b"secret")]
    theirs.accept()
    talk(ours, theirs)
    assert (ours.is_open, theirs.is_open) == (True, True)


def test_client_hears_that_its_password_is_wrong() -> None:
    ours, theirs = client(mechanism="PLAIN", user="ada", password="wrong"), server(mechanism="PLAIN")
    talk(ours, theirs)
    happened(theirs)
    theirs.refuse()
    talk(ours, theirs)
    assert happened(ours) == [ErrorReceived("400")]
    assert ours.outbox.finished


@pytest.mark.parametrize(
    "octets",
    [
        PLAIN_GREETING + command(b"WELCOME", b"x"),
        PLAIN_GREETING + ready(),
        PLAIN_GREETING + command(b"WELCOME") + command(b"WELCOME"),
        PLAIN_GREETING + command(b"WELCOME") + message(b"x"),
        GREETING,
    ],
    ids=["WELCOME with data", "no WELCOME", "two of them", "a message too early", "another mechanism"],
)
def test_server_that_breaks_a_rule_ends_the_connection(octets: bytes) -> None:
    ours = client(mechanism="PLAIN")
    ours.receive_data(octets)
    assert isinstance(happened(ours)[-1], Failed)


def test_subscriber_subscribes_by_commands_and_to_peers_before_them_by_messages() -> None:
    for minor in (1, 0):
        ours = client(socket_type="SUB")
        ours.receive_data(GREETING.replace(b"\x03\x01", bytes((3, minor))) + ready(b"XPUB"))
        said(ours)
        ours.subscribe(b"a")
        ours.cancel(b"a")
        if minor:
            assert said(ours) == command(b"SUBSCRIBE", b"a") + command(b"CANCEL", b"a")
        else:
            assert said(ours) == message(b"\1a") + message(b"\0a")


def test_subscriptions_arrive() -> None:
    ours, theirs = client(socket_type="SUB"), server(socket_type="XPUB")
    talk(ours, theirs)
    happened(theirs)
    ours.subscribe(b"a")
    talk(ours, theirs)
    assert happened(theirs) == [TopicSubscribed(b"a")]
    theirs.keep(b"a")
    ours.cancel(b"a")
    theirs.send([b"a", b"b"])
    talk(ours, theirs)
    assert happened(theirs) == [TopicCancelled(b"a")]
    assert happened(ours)[-1] == MessagesReceived([[b"a", b"b"]])


def test_subscription_that_no_peer_would_take_is_our_own_mistake() -> None:
    ours, theirs = client(socket_type="SUB"), server(socket_type="XPUB")
    talk(ours, theirs)
    with pytest.raises(LocalProtocolError, match="1025 octets"):
        ours.subscribe(bytes(1025))
    with pytest.raises(LocalProtocolError, match="a DEALER subscribes to nothing"):
        client().subscribe(b"a")


def test_client_asks_a_silent_server_whether_it_is_there() -> None:
    ours, theirs = client(heartbeat=2.0), server()
    talk(ours, theirs)
    ours.handle_timer(0.0)
    ours.handle_timer(1.0)
    ping = said(ours)
    assert ping == command(b"PING", (40).to_bytes(2, "big"))
    theirs.receive_data(ping)
    ours.receive_data(said(theirs))
    for now in (2.0, 3.0, 4.0, 5.0):
        ours.handle_timer(now)
    failed = happened(ours)[-1]
    assert isinstance(failed, Failed)
    assert failed.code == "SILENT"
