"""Direct replies."""

import re

from pamqp import commands

from ...answers import bare
from ..question import Group, Lines
from ..session import BrokenOffError, Peer, Session
from ..steps import message

Basic, Channel, Queue = commands.Basic, commands.Channel, commands.Queue

GROUP = Group("reply")
DIRECT = "amq.rabbitmq.reply-to"


def asked(session: Session) -> tuple[Peer, Peer, str]:
    """A client that waits for replies, a server, and the name that the server answers to."""
    client, server = session.open(), session.open()
    server.declare_queue(name=session.q, exclusive=False, auto_delete=True)
    server.do(Basic.Consume(queue=session.q, consumer_tag="server", no_ack=True))
    client.do(Basic.Consume(queue=DIRECT, consumer_tag="replies", no_ack=True))
    client.send_steps(message(session.q, b"question", reply_to=DIRECT, correlation_id="1"))
    received = server.receive()[0]
    found = re.search(r"reply_to: '([^']+)'", received)
    if found is None:
        raise BrokenOffError(received)
    return client, server, found[1]


@GROUP("a reply comes, and says what it says")
def reply(session: Session) -> Lines:
    client, server, name = asked(session)
    yield name
    server.send_steps(message(name, b"answer", correlation_id="1"))
    yield client.receive()[0]


@GROUP("the name is another one each time, or the same")
def same(session: Session) -> Lines:
    client, server, name = asked(session)
    client.send_steps(message(session.q, b"question", reply_to=DIRECT))
    found = re.search(r"reply_to: '([^']+)'", server.receive()[0])
    yield str(found is not None and found[1] == name)


@GROUP("a passive declare of the name, and of one that is forged")
def declared(session: Session) -> Lines:
    _, server, name = asked(session)
    for said in (name, f"{DIRECT}.forged"):
        # Pamqp takes no name with such characters in it.
        passive = b"\0\0" + bytes([len(said)]) + said.encode() + b"\x01\0\0\0\0"
        yield server.ask(bare(50, 10, passive)).replace(name, "the name")


@GROUP("a mandatory reply")
def mandatory(session: Session) -> Lines:
    client, server, name = asked(session)
    server.send_steps(message(name, b"answer", mandatory=True), Basic.Qos())
    yield client.receive()[0]
    yield server.receive()[0].replace(name, "the name")


@GROUP("a mandatory reply to a client that has gone")
def gone(session: Session) -> Lines:
    client, server, name = asked(session)
    client.do(Basic.Cancel("replies"))
    yield server.ask(message(name, b"too late", mandatory=True)).replace(name, "the name")


@GROUP("consume with acks")
def with_acks(session: Session) -> Lines:
    yield session.open().ask(Basic.Consume(queue=DIRECT))


@GROUP("consume twice")
def twice(session: Session) -> Lines:
    peer = session.open()
    yield peer.ask(Basic.Consume(queue=DIRECT, no_ack=True, consumer_tag="t"))
    yield peer.ask(Basic.Consume(queue=DIRECT, no_ack=True, consumer_tag="u"))


@GROUP("consume, cancel, and consume again")
def again(session: Session) -> Lines:
    peer = session.open()
    yield peer.ask(Basic.Consume(queue=DIRECT, no_ack=True, consumer_tag="t"))
    yield peer.ask(Basic.Cancel("t"))
    yield peer.ask(Basic.Consume(queue=DIRECT, no_ack=True, consumer_tag="t"))


@GROUP("publish with reply-to and nobody waits")
def nobody(session: Session) -> Lines:
    yield session.open().ask(message("nowhere", reply_to=DIRECT))


@GROUP("declare, bind, get and delete of the name")
def other_methods(session: Session) -> Lines:
    for method in (
        Queue.Declare(queue=DIRECT),
        Queue.Declare(queue=DIRECT, passive=True),
        Queue.Bind(queue=DIRECT, exchange="amq.direct"),
        Queue.Purge(queue=DIRECT),
        Queue.Delete(queue=DIRECT),
        Basic.Get(queue=DIRECT, no_ack=True),
        Basic.Get(queue=DIRECT, no_ack=False),
    ):
        yield session.open().ask(method)


@GROUP("publish to the bare name")
def bare_name(session: Session) -> Lines:
    yield session.open().ask(message(DIRECT, mandatory=True))


@GROUP("the channel of the client closes")
def closed(session: Session) -> Lines:
    client, server, name = asked(session)
    client.do(Channel.Close(200, "", 0, 0))
    yield server.ask(message(name, mandatory=True)).replace(name, "the name")


@GROUP("an exclusive consumer, and one with a tag of its own")
def exclusive(session: Session) -> Lines:
    yield session.open().ask(Basic.Consume(queue=DIRECT, no_ack=True, exclusive=True, consumer_tag="t"))


@GROUP("a reply-to of a name is left as it is")
def plain(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.send_steps(message(queue, reply_to="mine"))
    yield peer.get(queue)
