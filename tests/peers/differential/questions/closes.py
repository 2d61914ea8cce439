"""Closes: what is still said behind a request, and before its channel or connection closes in the same piece."""

from pamqp import commands

from ...raw import encode, publish
from ..question import Asking, Group, Lines
from ..saying import message
from ..talk import Step, Talk

Basic, Channel, Confirm, Connection = commands.Basic, commands.Channel, commands.Confirm, commands.Connection
Exchange, Queue = commands.Exchange, commands.Queue

GROUP = Group("close")

CHANNEL = Channel.Close(200, "bye", 0, 0)
CONNECTION = encode(0, Connection.Close(200, "bye", 0, 0))
MISSING = Queue.Declare(queue="no.such", passive=True)


def before(request: Step, close: Step) -> Asking:
    def ask(talk: Talk) -> Lines:
        speaker = talk.open()
        speaker.say(request, close)
        yield from speaker.hear(2)

    return ask


for _title, _request in {
    "a publish to a missing exchange": publish(1, "no.such", "k", b"x"),
    "a missing queue": MISSING,
    "an unknown delivery tag": Basic.Ack(42),
    "a mandatory message without a queue": message("no.such", mandatory=True),
    "an answer": Basic.Qos(),
}.items():
    GROUP.add(f"{_title} before channel.close", before(_request, CHANNEL))
    GROUP.add(f"{_title} before connection.close", before(_request, CONNECTION))


@GROUP("a type that is not known before channel.close")
def bad_type(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(Exchange.Declare(exchange=talk.e, exchange_type="nope"), CHANNEL)
    yield from [*speaker.hear(), *speaker.hush()]


@GROUP("a confirm before channel.close")
def confirm(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.do(Confirm.Select())
    speaker.say(publish(1, "", "no.such", b"x"), CHANNEL)
    yield from speaker.hear(2)


@GROUP("a refusal and channel.close, then close-ok, and the number again")
def again(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(MISSING, CHANNEL)
    yield from speaker.hear(2)
    speaker.say(Basic.Qos(), Queue.Declare(exclusive=True))
    yield from speaker.hush()
    speaker.say(Channel.CloseOk())
    yield speaker.ask(Channel.Open())
    yield speaker.ask(Basic.Qos())


@GROUP("a refusal and two channel.close")
def twice(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.do(Basic.Qos())
    speaker.say(MISSING)
    yield from speaker.hear()
    speaker.say(CHANNEL, CHANNEL)
    yield from speaker.hear(2)
    speaker.say(Channel.CloseOk())
    yield speaker.ask(Channel.Open())


@GROUP("a refusal and channel.close, and the number is opened without close-ok")
def impatient(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(MISSING, CHANNEL)
    yield from speaker.hear(2)
    yield speaker.ask(Channel.Open())


@GROUP("a refusal, channel.close and connection.close")
def both(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(MISSING, CHANNEL, CONNECTION)
    yield from speaker.hear(3)


@GROUP("a connection.close behind another is answered too")
def further(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.say(CONNECTION)
    yield from speaker.hear()
    speaker.say(Basic.Qos(), CONNECTION, CONNECTION)
    yield from speaker.hear(2)
    yield from speaker.hush()
