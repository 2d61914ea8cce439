"""What a channel keeps: flow, the last queue, no-wait."""

from pamqp import commands

from ...answers import bare
from ...raw import publish
from ..question import Asking, Group, Lines
from ..talk import Step, Talk

Basic, Channel, Confirm = commands.Basic, commands.Channel, commands.Confirm
Exchange, Queue = commands.Exchange, commands.Queue

GROUP = Group("channel")


@GROUP("flow on while a consumer is there")
def flow_on(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue()
    speaker.do(Basic.Consume(queue=queue, consumer_tag="t"))
    yield speaker.ask(Channel.Flow(active=True))
    speaker.say(publish(1, "", queue, b"x"))
    yield speaker.hear()[0]


@GROUP("flow-ok that answers nothing")
def flow_ok(talk: Talk) -> Lines:
    yield talk.open().ask(Channel.FlowOk(True), Basic.Qos())


@GROUP("the last declared queue is the one without a name")
def last(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue()
    speaker.declare_queue(name=talk.q)
    yield speaker.ask(Queue.Purge())
    yield speaker.ask(Basic.Consume(consumer_tag="t"))
    yield speaker.ask(Queue.Declare(queue="", passive=True))
    yield speaker.ask(Queue.Bind(exchange="amq.topic"))
    speaker.say(publish(1, "amq.topic", talk.q, b"by the queue's own name"))
    yield speaker.hear()[0]


@GROUP("a binding without a name and without a key has the queue's name for both")
def last_for_both(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    yield speaker.ask(Queue.Bind(exchange="amq.direct"))
    speaker.say(publish(1, "amq.direct", talk.q, b"by its name"), publish(1, "amq.direct", "", b"by no key"))
    yield from [speaker.get(talk.q), speaker.get(talk.q)]
    yield speaker.ask(Queue.Unbind(exchange="amq.direct"))
    speaker.say(publish(1, "amq.direct", talk.q, b"by its name"))
    yield speaker.get(talk.q)


@GROUP("a binding without a name and with a key keeps the key")
def last_with_key(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    yield speaker.ask(Queue.Bind(exchange="amq.direct", routing_key=talk.name("k")))
    speaker.say(publish(1, "amq.direct", talk.name("k"), b"x"), publish(1, "amq.direct", talk.q, b"no"))
    yield speaker.get(talk.q)
    yield speaker.get(talk.q)


@GROUP("a passive declare makes it the last queue")
def last_passive(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.declare_queue()
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    yield speaker.ask(Basic.Get())
    yield speaker.ask(Queue.Delete())
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))


@GROUP("the last queue of one channel is none of another")
def last_elsewhere(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.open_channel(2)
    speaker.declare_queue()
    yield speaker.ask(Basic.Get(), channel=2)


@GROUP("a queue without a name that was deleted")
def last_deleted(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Queue.Delete(queue=talk.q))
    yield speaker.ask(Basic.Get())


def silent(make: "list[Step]") -> Asking:
    def ask(talk: Talk) -> Lines:
        speaker = talk.open()
        speaker.declare_queue()
        yield from [speaker.ask(*make, Basic.Qos()), speaker.hush()[0]]

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
def loud(talk: Talk) -> Lines:
    yield talk.open().ask(Queue.Bind(queue="no.such", exchange="amq.direct", nowait=True))


@GROUP("close gives codes and texts of the client back to nobody")
def close(talk: Talk) -> Lines:
    speaker = talk.open()
    yield speaker.ask(Channel.Close(541, "a text of the client", 60, 40))
    yield speaker.ask(Channel.Open())


@GROUP("close-ok that answers nothing")
def close_ok(talk: Talk) -> Lines:
    yield talk.open().ask(Channel.CloseOk(), Basic.Qos())
