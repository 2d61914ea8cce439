"""Each row of the table of answers on a connection of its own, and answers that depend on more than a row holds."""

import re
from collections.abc import Callable, Iterator

import pytest
from pamqp import commands
from pamqp.base import Frame as Method

from peers.answers import describe, expected, precondition, prepare, table
from peers.raw import RawPeer, publish

Basic, Channel, Confirm = commands.Basic, commands.Channel, commands.Confirm
Connection, Exchange, Queue = commands.Connection, commands.Exchange, commands.Queue


@pytest.fixture
def clean(raw: Callable[..., RawPeer], name: str) -> Iterator[str]:
    """A name for the row's queue and exchange, which are deleted afterwards."""
    yield name
    cleaner = raw()
    cleaner.open_channel(1)
    cleaner.send(1, Queue.Delete(queue=name), Exchange.Delete(exchange=name))
    cleaner.read_method()  # an exclusive queue may still be there, and goes with its connection


@pytest.mark.parametrize("title", table("q", "e"))
def test_request_has_its_answer(raw: Callable[..., RawPeer], clean: str, is_triomq: bool, title: str) -> None:
    row = table(clean, clean)[title]
    owner, peer = raw(), raw()
    for opened in (owner, peer):
        opened.open_channel(1)
    prepare(owner, row.owner)
    prepare(peer, row.before)
    peer.socket.sendall(row.request)
    assert re.fullmatch(expected(row, title, is_triomq), describe(peer))


GONE = [
    ("get, then ack twice", [Basic.Get(), Basic.Ack(1), Basic.Ack(1)], "unknown delivery tag 1", 80),
    ("get without ack, then ack", [Basic.Get(no_ack=True), Basic.Ack(1)], "unknown delivery tag 1", 80),
    (
        "get, ack multiple, then nack",
        [Basic.Get(), Basic.Ack(0, multiple=True), Basic.Nack(1)],
        "unknown delivery tag 1",
        120,
    ),
    (
        "get, reject, then reject",
        [Basic.Get(), Basic.Reject(1, requeue=False), Basic.Reject(1)],
        "unknown delivery tag 1",
        90,
    ),
]


@pytest.mark.parametrize(("steps", "text", "method_id"), [row[1:] for row in GONE], ids=[row[0] for row in GONE])
def test_settled_tag_is_unknown(raw_peer: RawPeer, steps: list[Method], text: str, method_id: int) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.socket.sendall(publish(1, "", queue, b"x"))
    raw_peer.send(1, *steps)
    raw_peer.expect(Basic.GetOk)
    raw_peer.read_content()
    assert describe(raw_peer) == precondition(text, 60, method_id)


def test_consumers_of_a_deleted_queue_are_cancelled_if_their_clients_are_able(raw: Callable[..., RawPeer]) -> None:
    able, unable = raw(capabilities={"consumer_cancel_notify": True}), raw()
    for peer in (able, unable):
        peer.open_channel(1)
        peer.declare_queue()
        peer.call(1, Basic.Consume(consumer_tag="t"), Basic.ConsumeOk)
        peer.send(1, Queue.Delete())
    seen = sorted(able.read_method().name for _ in range(2))
    assert seen == ["Basic.Cancel", "Queue.DeleteOk"]
    unable.expect(Queue.DeleteOk)
