"""What users may do: each method as one who may not."""

from pamqp import commands

from ..question import Asking, Group, Lines
from ..session import Session, Step
from ..steps import message

Basic, Connection, Exchange, Queue = commands.Basic, commands.Connection, commands.Exchange, commands.Queue

GROUP = Group("right")

ALL = (".*", ".*", ".*")
LIMITED = {"limited": ("^limited", "^limited", "^limited"), "reader": ("", "", ".*"), "writer": ("", ".*", "")}
USERS: dict[str, tuple[str, str, str] | None] = {"guest": ALL, "impersonator": ALL, "stranger": None, **LIMITED}
"""User to what it may configure, write and read; the password is the user's name."""
TAGS = {"guest": ["administrator"], "impersonator": ["impersonator"]}


def asking(user: str, step: Step) -> Asking:
    def ask(session: Session) -> Lines:
        session.open().do(Queue.Declare(queue="shared", durable=True))
        other = session.open(user=user)
        # A publish is answered by nothing, so something is asked behind it.
        yield other.ask(step, *([Basic.Qos()] if isinstance(step, bytes) else []))

    return ask


STEPS: dict[str, Step] = {
    "queue.declare": Queue.Declare(queue="other"),
    "queue.declare without a name": Queue.Declare(exclusive=True),
    "queue.declare passive": Queue.Declare(queue="other", passive=True),
    "queue.declare passive of what is there": Queue.Declare(queue="shared", passive=True),
    "queue.delete": Queue.Delete(queue="other"),
    "queue.delete of what is there": Queue.Delete(queue="shared"),
    "queue.purge": Queue.Purge(queue="shared"),
    "queue.bind": Queue.Bind(queue="shared", exchange="amq.direct"),
    "queue.unbind": Queue.Unbind(queue="shared", exchange="amq.direct"),
    "basic.get": Basic.Get(queue="shared"),
    "basic.consume": Basic.Consume(queue="shared"),
    "exchange.declare": Exchange.Declare(exchange="other"),
    "exchange.declare passive": Exchange.Declare(exchange="amq.direct", passive=True),
    "exchange.declare as it is": Exchange.Declare(exchange="amq.direct", durable=True),
    "exchange.delete": Exchange.Delete(exchange="other"),
    "exchange.bind": Exchange.Bind(destination="amq.direct", source="amq.topic"),
    "exchange.unbind": Exchange.Unbind(destination="amq.direct", source="amq.topic"),
    "basic.publish": message("k", exchange="amq.direct"),
    "basic.publish to the default exchange": message("nowhere"),
    "basic.publish to what is not there": message("k", exchange="no.such"),
    "a dead-letter exchange": Queue.Declare(queue="limited.q", arguments={"x-dead-letter-exchange": "amq.direct"}),
    "an alternate exchange": Exchange.Declare(exchange="limited.e", arguments={"alternate-exchange": "amq.direct"}),
}
for _user in LIMITED:
    for _title, _step in STEPS.items():
        GROUP.add(f"{_user}: {_title}", asking(_user, _step))


@GROUP("a user without any right to a virtual host")
def no_vhost(session: Session) -> Lines:
    stranger = session.open(handshake=False, channel=False)
    stranger.start(response="\0stranger\0stranger")
    stranger.tune()
    yield stranger.ask(Connection.Open(), channel=0)


@GROUP("the user-id of one who is not the impersonator")
def impersonator(session: Session) -> Lines:
    yield session.open(user="limited").ask(message("k", user_id="guest"), Basic.Qos())
    yield session.open(user="impersonator").ask(message("k", user_id="guest"), Basic.Qos())
