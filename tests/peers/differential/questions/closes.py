"""Closes: what is still said behind a request, and before its channel or connection closes in the same piece."""

from pamqp import commands

from ...raw import encode, publish
from ..question import Asking, Group, Lines
from ..session import Session, Step
from ..steps import message

Basic, Channel, Confirm, Connection = commands.Basic, commands.Channel, commands.Confirm, commands.Connection
Exchange, Queue = commands.Exchange, commands.Queue

GROUP = Group("close")

CHANNEL = Channel.Close(200, "bye", 0, 0)
CONNECTION = encode(0, Connection.Close(200, "bye", 0, 0))
MISSING = Queue.Declare(queue="no.such", passive=True)


def before(request: Step, close: Step) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        peer.send_steps(request, close)
        yield from peer.receive(2)

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
def bad_type(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(Exchange.Declare(exchange=session.e, exchange_type="nope"), CHANNEL)
    yield from [*peer.receive(), *peer.receive_for()]


@GROUP("a confirm before channel.close")
def confirm(session: Session) -> Lines:
    peer = session.open()
    peer.do(Confirm.Select())
    peer.send_steps(publish(1, "", "no.such", b"x"), CHANNEL)
    yield from peer.receive(2)


@GROUP("a refusal and channel.close, then close-ok, and the number again")
def again(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(MISSING, CHANNEL)
    yield from peer.receive(2)
    peer.send_steps(Basic.Qos(), Queue.Declare(exclusive=True))
    yield from peer.receive_for()
    peer.send_steps(Channel.CloseOk())
    yield peer.ask(Channel.Open())
    yield peer.ask(Basic.Qos())


@GROUP("a refusal and two channel.close")
def twice(session: Session) -> Lines:
    peer = session.open()
    peer.do(Basic.Qos())
    peer.send_steps(MISSING)
    yield from peer.receive()
    peer.send_steps(CHANNEL, CHANNEL)
    yield from peer.receive(2)
    peer.send_steps(Channel.CloseOk())
    yield peer.ask(Channel.Open())


@GROUP("a refusal and channel.close, and the number is opened without close-ok")
def impatient(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(MISSING, CHANNEL)
    yield from peer.receive(2)
    yield peer.ask(Channel.Open())


@GROUP("a refusal, channel.close and connection.close")
def both(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(MISSING, CHANNEL, CONNECTION)
    yield from peer.receive(3)


@GROUP("a connection.close behind another is answered too")
def further(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(CONNECTION)
    yield from peer.receive()
    peer.send_steps(Basic.Qos(), CONNECTION, CONNECTION)
    yield from peer.receive(2)
    yield from peer.receive_for()
