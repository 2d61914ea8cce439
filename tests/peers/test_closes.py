"""Requests and a close in one piece: what the requests deserve comes before the close is answered, every time."""

from collections.abc import Callable

import pytest
from pamqp import commands

from peers.raw import METHOD, RawPeer, content, encode, publish

Basic, Channel, Confirm, Connection = commands.Basic, commands.Channel, commands.Confirm, commands.Connection
Exchange, Queue = commands.Exchange, commands.Queue

TIMES = 500

MANDATORY = Basic.Publish(exchange="", routing_key="no.such.queue", mandatory=True)
RETURN = encode(1, MANDATORY) + content(1, b"x")
REQUESTS = {
    "a missing exchange": (publish(1, "no.such", "k", b"x"), ["Channel.Close 404"], False),
    "a missing queue": (encode(1, Queue.Declare(queue="no.such", passive=True)), ["Channel.Close 404"], False),
    "an unknown tag": (encode(1, Basic.Ack(42)), ["Channel.Close 406"], False),
    "a return": (RETURN, ["Basic.Return 312"], False),
    "confirms": (encode(1, Confirm.Select(nowait=True)) + RETURN + RETURN, ["Basic.Return 312"] * 2, True),
    "an answer": (encode(1, Queue.Declare(exclusive=True)), ["Queue.DeclareOk"], False),
}
BAD_TYPE = encode(1, Exchange.Declare(exchange="e", exchange_type="nope"))

every_request = pytest.mark.parametrize(("octets", "answers", "confirmed"), REQUESTS.values(), ids=REQUESTS)


def answered(peer: RawPeer, last: str) -> tuple[list[str], bool]:
    """Name the methods that come before the last one, confirms apart; tell whether there were any of those."""
    heard: list[str] = []
    while not heard or heard[-1] != last:
        found = peer.read()
        assert found is not None, f"the stream ended after {heard}"
        if found.kind == METHOD:
            method = found.decode()
            heard.append(f"{method.name} {getattr(method, 'reply_code', '')}".strip())
    return [name for name in heard[:-1] if name != "Basic.Ack"], "Basic.Ack" in heard


@every_request
def test_requests_before_a_channel_s_close_are_answered_first(
    raw: Callable[..., RawPeer], octets: bytes, answers: list[str], *, confirmed: bool
) -> None:
    peer = raw()
    for _ in range(TIMES):
        peer.open_channel(1)
        peer.socket.sendall(octets + encode(1, Channel.Close(200, "bye", 0, 0)))
        assert answered(peer, "Channel.CloseOk") == (answers, confirmed)
        if "Channel.Close" in answers[0]:
            peer.send(1, Channel.CloseOk())


@every_request
def test_requests_before_a_connection_s_close_are_answered_first(
    broker_url: str, octets: bytes, answers: list[str], *, confirmed: bool
) -> None:
    for _ in range(TIMES):
        with RawPeer(broker_url) as peer:
            peer.open_channel(1)
            peer.socket.sendall(octets + encode(0, Connection.Close(200, "bye", 0, 0)))
            assert answered(peer, "Connection.CloseOk") == (answers, confirmed)


@pytest.mark.parametrize(
    "close", [encode(1, Channel.Close(200, "bye", 0, 0)), encode(0, Connection.Close(200, "bye", 0, 0))], ids=["1", "0"]
)
def test_connection_that_is_refused_says_so_whatever_is_closed_behind(broker_url: str, close: bytes) -> None:
    for _ in range(TIMES):
        with RawPeer(broker_url) as peer:
            peer.open_channel(1)
            peer.socket.sendall(BAD_TYPE + close)
            refusal = peer.expect(Connection.Close)
            assert (refusal.reply_code, refusal.class_id, refusal.method_id) == (503, 40, 10)
