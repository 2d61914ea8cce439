"""What a channel keeps: flow, the last queue, no-wait."""

from pamqp import commands

from ...answers import bare
from ...raw import publish
from ..question import Asking, Group, Lines
from ..session import Session, Step

Basic, Channel, Confirm = commands.Basic, commands.Channel, commands.Confirm
Exchange, Queue = commands.Exchange, commands.Queue

GROUP = Group("channel")


@GROUP("flow on while a consumer is there")
def flow_on(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.do(Basic.Consume(queue=queue, consumer_tag="t"))
    yield peer.ask(Channel.Flow(active=True))
    peer.send_steps(publish(1, "", queue, b"x"))
    yield peer.receive()[0]


@GROUP("flow-ok that answers nothing")
def flow_ok(session: Session) -> Lines:
    yield session.open().ask(Channel.FlowOk(True), Basic.Qos())


@GROUP("the last declared queue is the one without a name")
def last(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue()
    peer.declare_queue(name=session.q)
    yield peer.ask(Queue.Purge())
    yield peer.ask(Basic.Consume(consumer_tag="t"))
    yield peer.ask(Queue.Declare(queue="", passive=True))
    yield peer.ask(Queue.Bind(exchange="amq.topic"))
    peer.send_steps(publish(1, "amq.topic", session.q, b"by the queue's own name"))
    yield peer.receive()[0]


@GROUP("a binding without a name and without a key has the queue's name for both")
def last_for_both(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    yield peer.ask(Queue.Bind(exchange="amq.direct"))
    peer.send_steps(publish(1, "amq.direct", session.q, b"by its name"), publish(1, "amq.direct", "", b"by no key"))
    yield from [peer.get(session.q), peer.get(session.q)]
    yield peer.ask(Queue.Unbind(exchange="amq.direct"))
    peer.send_steps(publish(1, "amq.direct", session.q, b"by its name"))
    yield peer.get(session.q)


@GROUP("a binding without a name and with a key keeps the key")
def last_with_key(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    yield peer.ask(Queue.Bind(exchange="amq.direct", routing_key=session.name("k")))
    peer.send_steps(publish(1, "amq.direct", session.name("k"), b"x"), publish(1, "amq.direct", session.q, b"no"))
    yield peer.get(session.q)
    yield peer.get(session.q)


@GROUP("a passive declare makes it the last queue")
def last_passive(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.declare_queue()
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    yield peer.ask(Basic.Get())
    yield peer.ask(Queue.Delete())
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))


@GROUP("the last queue of one channel is none of another")
def last_elsewhere(session: Session) -> Lines:
    peer = session.open()
    peer.open_channel(2)
    peer.declare_queue()
    yield peer.ask(Basic.Get(), channel=2)


@GROUP("a queue without a name that was deleted")
def last_deleted(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Queue.Delete(queue=session.q))
    yield peer.ask(Basic.Get())


def silent(make: "list[Step]") -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        peer.declare_queue()
        yield from [peer.ask(*make, Basic.Qos()), peer.receive_for()[0]]

    return ask


for _title, _steps in {
    "queue.declare": [Queue.Declare(exclusive=True, nowait=True)],
    "queue.bind": [Queue.Bind(exchange="amq.fanout", nowait=True)],
    "queue.purge": [Queue.Purge(nowait=True)],
    "queue.delete": [Queue.Delete(nowait=True)],
    "exchange.bind": [Exchange.Bind(destination="amq.topic", source="amq.direct", routing_key="n", nowait=True)],
    "exchange.unbind": [Exchange.Unbind(destination="amq.topic", source="amq.direct", routing_key="n", nowait=True)],
    "exchange.declare": [Exchange.Declare(exchange="amq.direct", durable=True, nowait=True)],
    "basic.consume": [Basic.Consume(consumer_tag="t", nowait=True)],
    "basic.cancel": [Basic.Consume(consumer_tag="t", nowait=True), Basic.Cancel("t", nowait=True)],
    "confirm.select": [Confirm.Select(nowait=True)],
    "basic.recover-async": [bare(60, 100, b"\x01")],
}.items():
    GROUP.add(f"{_title} with no-wait is not answered", silent(_steps))


@GROUP("no-wait does not keep a refusal back")
def loud(session: Session) -> Lines:
    yield session.open().ask(Queue.Bind(queue="no.such", exchange="amq.direct", nowait=True))


@GROUP("close gives codes and texts of the client back to nobody")
def close(session: Session) -> Lines:
    peer = session.open()
    yield peer.ask(Channel.Close(541, "a text of the client", 60, 40))
    yield peer.ask(Channel.Open())


@GROUP("close-ok that answers nothing")
def close_ok(session: Session) -> Lines:
    yield session.open().ask(Channel.CloseOk(), Basic.Qos())
