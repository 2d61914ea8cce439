"""CC and BCC."""

from pamqp import commands

from ..question import Asking, Group, Lines
from ..session import Session
from ..steps import confirmed, message

Basic, Confirm, Exchange, Queue = commands.Basic, commands.Confirm, commands.Exchange, commands.Queue

GROUP = Group("copy")


def copied(make: "dict[str, list[int]]") -> Asking:
    """What three queues get, by headers that name them by their numbers."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        queues = [peer.declare_queue(name=session.name(f"q{number}")) for number in range(3)]
        headers = {name: [queues[number] for number in numbers] for name, numbers in make.items()}
        peer.send_steps(message(queues[0], headers={**headers, "mine": 1}))
        for queue in queues:
            yield peer.get(queue)
            yield peer.get(queue)

    return ask


GROUP.add("CC to another queue", copied({"CC": [1]}))
GROUP.add("BCC to another queue", copied({"BCC": [1]}))
GROUP.add("CC and BCC", copied({"CC": [1], "BCC": [2]}))
GROUP.add("CC to the same queue twice", copied({"CC": [0, 1, 1]}))
GROUP.add("empty lists", copied({"CC": [], "BCC": []}))

BAD: dict[str, dict[str, object]] = {
    "CC that is text": {"CC": "a"},
    "BCC that is text": {"BCC": "a"},
    "CC of numbers": {"CC": [1]},
    "CC that is a number": {"CC": 100_000},
    "CC that is void": {"CC": None},
    "cc in small letters": {"cc": ["a"]},
}


def bad(headers: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        peer.declare_queue(name=session.q)
        peer.do(Confirm.Select())
        yield from confirmed(peer, message(session.q, headers=headers))

    return ask


for _title, _headers in BAD.items():
    GROUP.add(_title, bad(_headers))


@GROUP("a copy is enough for what is mandatory")
def mandatory(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Confirm.Select())
    yield from confirmed(peer, message("nowhere", mandatory=True, headers={"CC": [session.q]}))
    yield peer.get(session.q)


@GROUP("copies through a topic exchange")
def topic(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Exchange.Declare(exchange=session.e, exchange_type="topic", auto_delete=True))
    peer.do(Queue.Bind(queue=session.q, exchange=session.e, routing_key="copy.#"))
    peer.send_steps(message("k", exchange=session.e, headers={"BCC": ["copy.b"]}))
    yield peer.get(session.q)


@GROUP("a fanout gives one for all keys")
def fanout(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Exchange.Declare(exchange=session.e, exchange_type="fanout", auto_delete=True))
    peer.do(Queue.Bind(queue=session.q, exchange=session.e))
    peer.send_steps(message("k", exchange=session.e, headers={"CC": ["a", "b"]}))
    yield from [peer.get(session.q), peer.get(session.q)]


@GROUP("a return shows BCC")
def returned(session: Session) -> Lines:
    yield session.open().ask(message("nowhere", mandatory=True, headers={"BCC": ["nor here"]}))
