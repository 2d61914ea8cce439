"""Contents and frames beyond those of the table of answers."""

import struct

from pamqp import commands

from ...answers import bare
from ...raw import content, encode, publish, raw_frame
from ..question import Group, Lines
from ..session import Session

Basic, Channel, Confirm, Queue = commands.Basic, commands.Channel, commands.Confirm, commands.Queue

GROUP = Group("frame")


@GROUP("an empty body has no body frame")
def empty(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.send_steps(publish(1, "", queue, b""))
    yield peer.get(queue)
    yield peer.receive_for()[0]


@GROUP("a body in many frames, one of them empty")
def many(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    head = raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 3, 0))
    parts = b"".join(raw_frame(3, 1, part) for part in (b"a", b"", b"bc"))
    peer.send_steps(Basic.Publish(routing_key=queue), head, parts)
    yield peer.get(queue)


@GROUP("contents of two channels between each other")
def interleaved(session: Session) -> Lines:
    peer = session.open()
    peer.open_channel(2)
    queue = peer.declare_queue()
    for channel in (1, 2):
        peer.do(Confirm.Select(), channel=channel)
    method = [encode(channel, Basic.Publish(routing_key=queue)) for channel in (1, 2)]
    parts = [content(channel, b"on %d" % channel) for channel in (1, 2)]
    head = len(raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 4, 0)))
    peer.send_steps(method[0], method[1], parts[0][:head], parts[1][:head], parts[1][head:], parts[0][head:])
    peer.receive(2)
    yield from sorted(peer.get(queue).rpartition("b'")[2] for _ in range(2))


@GROUP("a method of the server from a client")
def servers_own(session: Session) -> Lines:
    yield session.open().ask(Basic.QosOk())


@GROUP("a delivery from a client")
def delivery(session: Session) -> Lines:
    yield session.open().ask(bare(60, 60, b"\x01t" + b"\0" * 11), content(1, b"x"))


@GROUP("a second word of property flags")
def second_word(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(Basic.Publish(), raw_frame(2, 1, struct.pack(">HHQHH", 60, 0, 0, 1, 0)))
    yield peer.ask(Basic.Qos())


@GROUP("a property that is announced and not there")
def missing_property(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(Basic.Publish(), raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0x8000)))
    yield peer.ask(Basic.Qos())


@GROUP("arguments with something behind them")
def something_behind(session: Session) -> Lines:
    yield session.open().ask(bare(60, 110, b"\x01more"))


@GROUP("what is on a channel after a refusal is passed over")
def after_refusal(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(publish(1, "no.such", "k", b"x") * 3, Queue.Declare(queue=session.q), Basic.Qos())
    yield peer.receive()[0]
    yield peer.receive_for()[0]
    yield peer.ask(Channel.CloseOk(), Channel.Open())
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))


@GROUP("a channel whose closes cross may be opened again")
def crossing(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(publish(1, "no.such", "k", b"x"), Channel.Close(200, "", 0, 0))
    received = peer.receive()
    if "CloseOk" not in received[0]:  # a broker that has not read the client's close says its own first
        received += peer.receive()
        peer.send_steps(Channel.CloseOk())
    yield received[-1]
    yield peer.ask(Channel.Open())


@GROUP("a method on a channel that was closed")
def closed(session: Session) -> Lines:
    peer = session.open()
    yield peer.ask(Channel.Close(200, "", 0, 0))
    yield peer.ask(Basic.Qos())


@GROUP("a content on a channel that was closed")
def content_closed(session: Session) -> Lines:
    peer = session.open()
    yield peer.ask(Channel.Close(200, "", 0, 0))
    peer.send_steps(publish(1, "", "k", b"x"))
    yield peer.receive()[0]


@GROUP("access.request of 0-8")
def access(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(bare(30, 10, b"\x05/data" + b"\x1f"))
    found = peer.read()
    yield "reset" if found is None else found.payload.hex()
