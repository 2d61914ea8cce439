"""The first frames of a connection, and what limits are agreed in them."""

from collections.abc import Callable

import pytest
from pamqp import commands

from peers.raw import PROTOCOL_HEADER, RawPeer, content, encode, publish, raw_frame

Connection = commands.Connection


@pytest.mark.parametrize("header", [b"HTTP/1.1", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"])
def test_another_protocol_is_answered_with_ours(raw: Callable[..., RawPeer], header: bytes) -> None:
    peer = raw(handshake=False)
    peer.socket.sendall(header)
    assert peer.take(8) == PROTOCOL_HEADER
    assert peer.take(1) is None


def test_the_first_version_of_the_header_is_refused_by_triomq_only(
    raw: Callable[..., RawPeer], is_triomq: bool
) -> None:
    peer = raw(handshake=False)
    peer.socket.sendall(b"AMQP\x01\x01\x08\x00")
    if is_triomq:
        assert peer.take(8) == PROTOCOL_HEADER
    else:
        peer.expect(Connection.Start)


def test_the_server_says_what_it_can(raw: Callable[..., RawPeer]) -> None:
    peer = raw()
    properties = peer.server_properties
    for capability in (
        "publisher_confirms",
        "basic.nack",
        "consumer_cancel_notify",
        "exchange_exchange_bindings",
        "authentication_failure_close",
        "per_consumer_qos",
        "consumer_priorities",
    ):
        assert properties["capabilities"][capability] is True
    assert {"product", "version", "platform"} <= set(properties)
    assert all(part.isdigit() for part in properties["version"].split("."))


def test_the_offer_is_the_usual_one(raw: Callable[..., RawPeer]) -> None:
    offer = raw().offer
    assert (offer.channel_max, offer.frame_max, offer.heartbeat) == (2047, 131072, 60)


def test_wrong_password_is_refused_with_a_reason(raw: Callable[..., RawPeer]) -> None:
    peer = raw(handshake=False)
    peer.start({"authentication_failure_close": True}, response="\0guest\0wrong")
    close = peer.expect(Connection.Close)
    assert close.reply_code == 403
    assert close.reply_text.startswith("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.")


def test_wrong_password_closes_without_a_word_for_a_client_that_cannot_hear_it(raw: Callable[..., RawPeer]) -> None:
    peer = raw(handshake=False)
    peer.start(response="\0guest\0wrong")
    assert peer.ended()


def test_plain_may_wait_to_be_asked(raw: Callable[..., RawPeer], is_triomq: bool) -> None:
    if not is_triomq:
        pytest.skip("RabbitMQ refuses a PLAIN response that is empty")
    peer = raw(handshake=False)
    peer.start(response="")
    assert peer.expect(Connection.Secure).challenge in ("", b"")
    peer.send(0, Connection.SecureOk("\0guest\0guest"))
    peer.tune()
    peer.call(0, Connection.Open(), Connection.OpenOk)


def test_amqplain_is_a_way_in(raw: Callable[..., RawPeer]) -> None:
    peer = raw(handshake=False)
    table = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"
    peer.start(mechanism="AMQPLAIN", response=table.decode())
    peer.tune()
    peer.call(0, Connection.Open(), Connection.OpenOk)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("PLAIN", "garbage"), ("AMQPLAIN", "garbage"), ("AMQPLAIN", "\x05LOGINS\x00\x00\x00\x7fguest")],
)
def test_login_that_cannot_be_read_is_refused(raw: Callable[..., RawPeer], mechanism: str, response: str) -> None:
    peer = raw(handshake=False)
    peer.start({"authentication_failure_close": True}, mechanism=mechanism, response=response)
    found = peer.read()
    assert found is None or isinstance(found.decode(), Connection.Close)
    raw().open_channel(1)  # nobody else is harmed


def test_unknown_virtual_host_is_not_found(raw: Callable[..., RawPeer]) -> None:
    peer = raw(handshake=False)
    peer.start()
    peer.tune()
    peer.send(0, Connection.Open("/nope"))
    close = peer.expect(Connection.Close)
    assert (close.reply_code, close.reply_text) == (530, "NOT_ALLOWED - vhost /nope not found")
    assert (close.class_id, close.method_id) == (10, 40)


def test_channel_above_the_limit_closes_the_connection(raw: Callable[..., RawPeer]) -> None:
    peer = raw(channel_max=3)
    for number in (1, 2, 9):  # only the count is limited, not the number
        peer.open_channel(number)
    peer.send(4, commands.Channel.Open())
    close = peer.expect(Connection.Close)
    text = "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    assert (close.reply_code, close.reply_text) == (530, text)


def test_closed_channel_makes_room_for_another(raw: Callable[..., RawPeer]) -> None:
    peer = raw(channel_max=2)
    peer.open_channel(1)
    for number in range(2, 20):
        peer.open_channel(number)
        close = commands.Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0)
        peer.call(number, close, commands.Channel.CloseOk)


def test_deliveries_fit_the_frames_of_a_client_with_small_ones(raw: Callable[..., RawPeer]) -> None:
    peer = raw(frame_max=4096)
    peer.open_channel(1)
    queue = peer.declare_queue()
    other = raw()
    body = bytes(range(256)) * 400
    method = encode(1, commands.Basic.Publish(routing_key=queue))
    peer.socket.sendall(method + content(1, body, frame_max=4096) + publish(1, "", queue, b"small"))
    consume = commands.Basic.Consume(queue=queue, no_ack=True)
    peer.call(1, consume, commands.Basic.ConsumeOk)
    assert [peer.read_delivery()[1] for _ in range(2)] == [body, b"small"]
    assert other.frame_max == 131072


def test_large_body_is_cut_anew_for_a_consumer_with_smaller_frames(
    raw: Callable[..., RawPeer], raw_peer: RawPeer, shared_queue: str
) -> None:
    consumer = raw(frame_max=4096)
    consumer.open_channel(1)
    consumer.call(1, commands.Basic.Consume(queue=shared_queue, no_ack=True), commands.Basic.ConsumeOk)
    body = bytes(range(256)) * 1000
    raw_peer.socket.sendall(publish(1, "", shared_queue, body))
    assert consumer.read_delivery()[1] == body


def test_frame_above_the_agreed_size_closes_the_connection(raw: Callable[..., RawPeer]) -> None:
    peer = raw(frame_max=4096)
    peer.open_channel(1)
    peer.socket.sendall(encode(1, commands.Basic.Publish(routing_key="q")))
    peer.socket.sendall(raw_frame(2, 1, b"\0\x3c\0\0" + (5000).to_bytes(8) + b"\0\0") + raw_frame(3, 1, b"x" * 5000))
    close = peer.expect(Connection.Close)
    assert close.reply_code == 501
    assert close.reply_text.startswith("FRAME_ERROR")


@pytest.mark.parametrize("frame_max", [100, 131073, 0])
def test_limits_outside_the_offer_end_the_connection(
    raw: Callable[..., RawPeer], is_triomq: bool, frame_max: int
) -> None:
    """RabbitMQ ends it without a word; triomq says why (specification 1.4.2.6: frame-max of tune-ok)."""
    peer = raw(handshake=False)
    peer.start()
    peer.tune(frame_max=frame_max)
    if is_triomq:
        assert peer.expect(Connection.Close).reply_code in (501, 530)
    else:
        assert peer.ended()
