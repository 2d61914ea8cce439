"""Direct replies."""

import re

from pamqp import commands

from ...answers import bare
from ..question import Group, Lines
from ..saying import message
from ..talk import BrokenOffError, Speaker, Talk

Basic, Channel, Queue = commands.Basic, commands.Channel, commands.Queue

GROUP = Group("reply")
DIRECT = "amq.rabbitmq.reply-to"


def asked(talk: Talk) -> tuple[Speaker, Speaker, str]:
    """A client that waits for replies, a server, and the name that the server answers to."""
    client, server = talk.open(), talk.open()
    server.declare_queue(name=talk.q, exclusive=False, auto_delete=True)
    server.do(Basic.Consume(queue=talk.q, consumer_tag="server", no_ack=True))
    client.do(Basic.Consume(queue=DIRECT, consumer_tag="replies", no_ack=True))
    client.say(message(talk.q, b"question", reply_to=DIRECT, correlation_id="1"))
    heard = server.hear()[0]
    found = re.search(r"reply_to: '([^']+)'", heard)
    if found is None:
        raise BrokenOffError(heard)
    return client, server, found[1]


@GROUP("a reply comes, and says what it says")
def reply(talk: Talk) -> Lines:
    client, server, name = asked(talk)
    yield name
    server.say(message(name, b"answer", correlation_id="1"))
    yield client.hear()[0]


@GROUP("the name is another one each time, or the same")
def same(talk: Talk) -> Lines:
    client, server, name = asked(talk)
    client.say(message(talk.q, b"question", reply_to=DIRECT))
    found = re.search(r"reply_to: '([^']+)'", server.hear()[0])
    yield str(found is not None and found[1] == name)


@GROUP("a passive declare of the name, and of one that is forged")
def declared(talk: Talk) -> Lines:
    _, server, name = asked(talk)
    for said in (name, f"{DIRECT}.forged"):
        # Pamqp takes no name with such characters in it.
        passive = b"\0\0" + bytes([len(said)]) + said.encode() + b"\x01\0\0\0\0"
        yield server.ask(bare(50, 10, passive)).replace(name, "the name")


@GROUP("a mandatory reply")
def mandatory(talk: Talk) -> Lines:
    client, server, name = asked(talk)
    server.say(message(name, b"answer", mandatory=True), Basic.Qos())
    yield client.hear()[0]
    yield server.hear()[0].replace(name, "the name")


@GROUP("a mandatory reply to a client that has gone")
def gone(talk: Talk) -> Lines:
    client, server, name = asked(talk)
    client.do(Basic.Cancel("replies"))
    yield server.ask(message(name, b"too late", mandatory=True)).replace(name, "the name")


@GROUP("consume with acks")
def with_acks(talk: Talk) -> Lines:
    yield talk.open().ask(Basic.Consume(queue=DIRECT))


@GROUP("consume twice")
def twice(talk: Talk) -> Lines:
    speaker = talk.open()
    yield speaker.ask(Basic.Consume(queue=DIRECT, no_ack=True, consumer_tag="t"))
    yield speaker.ask(Basic.Consume(queue=DIRECT, no_ack=True, consumer_tag="u"))


@GROUP("consume, cancel, and consume again")
def again(talk: Talk) -> Lines:
    speaker = talk.open()
    yield speaker.ask(Basic.Consume(queue=DIRECT, no_ack=True, consumer_tag="t"))
    yield speaker.ask(Basic.Cancel("t"))
    yield speaker.ask(Basic.Consume(queue=DIRECT, no_ack=True, consumer_tag="t"))


@GROUP("publish with reply-to and nobody waits")
def nobody(talk: Talk) -> Lines:
    yield talk.open().ask(message("nowhere", reply_to=DIRECT))


@GROUP("declare, bind, get and delete of the name")
def other_methods(talk: Talk) -> Lines:
    for method in (
        Queue.Declare(queue=DIRECT),
        Queue.Declare(queue=DIRECT, passive=True),
        Queue.Bind(queue=DIRECT, exchange="amq.direct"),
        Queue.Purge(queue=DIRECT),
        Queue.Delete(queue=DIRECT),
        Basic.Get(queue=DIRECT, no_ack=True),
        Basic.Get(queue=DIRECT, no_ack=False),
    ):
        yield talk.open().ask(method)


@GROUP("publish to the bare name")
def bare_name(talk: Talk) -> Lines:
    yield talk.open().ask(message(DIRECT, mandatory=True))


@GROUP("the channel of the client closes")
def closed(talk: Talk) -> Lines:
    client, server, name = asked(talk)
    client.do(Channel.Close(200, "", 0, 0))
    yield server.ask(message(name, mandatory=True)).replace(name, "the name")


@GROUP("an exclusive consumer, and one with a tag of its own")
def exclusive(talk: Talk) -> Lines:
    yield talk.open().ask(Basic.Consume(queue=DIRECT, no_ack=True, exclusive=True, consumer_tag="t"))


@GROUP("a reply-to of a name is left as it is")
def plain(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue()
    speaker.say(message(queue, reply_to="mine"))
    yield speaker.get(queue)
