"""Contents and frames beyond those of the table of answers."""

import struct

from pamqp import commands

from ...answers import bare
from ...raw import content, encode, publish, raw_frame
from ..question import Group, Lines
from ..talk import Talk

Basic, Channel, Confirm, Queue = commands.Basic, commands.Channel, commands.Confirm, commands.Queue

GROUP = Group("frame")


@GROUP("an empty body has no body frame")
def empty(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue()
    speaker.say(publish(1, "", queue, b""))
    yield speaker.get(queue)
    yield speaker.hush()[0]


@GROUP("a body in many frames, one of them empty")
def many(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue()
    head = raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 3, 0))
    parts = b"".join(raw_frame(3, 1, part) for part in (b"a", b"", b"bc"))
    speaker.say(Basic.Publish(routing_key=queue), head, parts)
    yield speaker.get(queue)


@GROUP("contents of two channels between each other")
def interleaved(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.open_channel(2)
    queue = speaker.declare_queue()
    for channel in (1, 2):
        speaker.do(Confirm.Select(), channel=channel)
    method = [encode(channel, Basic.Publish(routing_key=queue)) for channel in (1, 2)]
    parts = [content(channel, b"on %d" % channel) for channel in (1, 2)]
    head = len(raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 4, 0)))
    speaker.say(method[0], method[1], parts[0][:head], parts[1][:head], parts[1][head:], parts[0][head:])
    speaker.hear(2)
    yield from sorted(speaker.get(queue).rpartition("b'")[2] for _ in range(2))


@GROUP("a method of the server from a client")
def servers_own(talk: Talk) -> Lines:
    yield talk.open().ask(Basic.QosOk())


@GROUP("a delivery from a client")
def delivery(talk: Talk) -> Lines:
    yield talk.open().ask(bare(60, 60, b"\x01t" + b"\0" * 11), content(1, b"x"))


@GROUP("a second word of property flags")
def second_word(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(Basic.Publish(), raw_frame(2, 1, struct.pack(">HHQHH", 60, 0, 0, 1, 0)))
    yield speaker.ask(Basic.Qos())


@GROUP("a property that is announced and not there")
def missing_property(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(Basic.Publish(), raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0x8000)))
    yield speaker.ask(Basic.Qos())


@GROUP("arguments with something behind them")
def something_behind(talk: Talk) -> Lines:
    yield talk.open().ask(bare(60, 110, b"\x01more"))


@GROUP("what is on a channel after a refusal is passed over")
def after_refusal(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(publish(1, "no.such", "k", b"x") * 3, Queue.Declare(queue=talk.q), Basic.Qos())
    yield speaker.hear()[0]
    yield speaker.hush()[0]
    yield speaker.ask(Channel.CloseOk(), Channel.Open())
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))


@GROUP("a channel whose closes cross may be opened again")
def crossing(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(publish(1, "no.such", "k", b"x"), Channel.Close(200, "", 0, 0))
    heard = speaker.hear()
    if "CloseOk" not in heard[0]:  # a broker that has not read the client's close says its own first
        heard += speaker.hear()
        speaker.say(Channel.CloseOk())
    yield heard[-1]
    yield speaker.ask(Channel.Open())


@GROUP("a method on a channel that was closed")
def closed(talk: Talk) -> Lines:
    speaker = talk.open()
    yield speaker.ask(Channel.Close(200, "", 0, 0))
    yield speaker.ask(Basic.Qos())


@GROUP("a content on a channel that was closed")
def content_closed(talk: Talk) -> Lines:
    speaker = talk.open()
    yield speaker.ask(Channel.Close(200, "", 0, 0))
    speaker.say(publish(1, "", "k", b"x"))
    yield speaker.hear()[0]


@GROUP("access.request of 0-8")
def access(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(bare(30, 10, b"\x05/data" + b"\x1f"))
    found = speaker.read()
    yield "reset" if found is None else found.payload.hex()
