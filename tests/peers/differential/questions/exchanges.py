"""Where messages go: exchanges of every type, bindings between them, alternates."""

from pamqp import commands

from ...answers import bare
from ...raw import publish
from ..question import Asking, Group, Lines
from ..session import Peer, Session
from ..steps import message

Basic, Exchange, Queue = commands.Basic, commands.Exchange, commands.Queue

GROUP = Group("exchange")


def declare(peer: Peer, name: str, kind: str = "direct", **options: object) -> None:
    peer.do(Exchange.Declare(exchange=name, exchange_type=kind, **{"auto_delete": True, **options}))  # type: ignore[arg-type]


def routed(kind: str, bindings: list[str], keys: list[str]) -> Asking:
    """Which keys get through to a queue with these bindings."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        declare(peer, session.e, kind)
        queue = peer.declare_queue()
        for binding in bindings:
            peer.do(Queue.Bind(queue=queue, exchange=session.e, routing_key=binding))
        for key in keys:
            peer.send_steps(publish(1, session.e, key, key.encode() or b"empty"))
        yield from [peer.get(queue) for _ in range(len(keys) + 1)]

    return ask


KEYS = ["", "a", "a.b", "a.b.c", "a..b", ".a", "a.", ".", "b", "*", "#", "a.#"]
for _pattern in ("#", "*", "a.*", "a.#", "#.b", "*.b", "a.*.b", "", "a.#.b", "#.#", "*.#", "a", "a..b", "*.", ".*"):
    GROUP.add(f"topic binding {_pattern!r}", routed("topic", [_pattern], KEYS))
GROUP.add("two bindings that match give one message", routed("topic", ["a.#", "#.b"], ["a.b"]))
GROUP.add("two bindings of a direct exchange", routed("direct", ["a", "b"], ["a", "b", "c", ""]))
GROUP.add("a fanout does not look at keys", routed("fanout", ["a", "b"], ["a", "", "z"]))

HEADERS: dict[str, dict[str, object]] = {
    "both": {"a": 1, "b": "two"},
    "one": {"a": 1},
    "other value": {"a": 2, "b": "two"},
    "more": {"a": 1, "b": "two", "c": 3},
    "none": {},
    "another type": {"a": "1", "b": "two"},
    "with x-": {"a": 1, "b": "two", "x-a": 1},
    "only x-": {"x-a": 1},
    "void": {"a": None, "b": None},
}


def by_headers(arguments: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        queue = peer.declare_queue()
        declare(peer, session.e, "headers")
        yield peer.ask(Queue.Bind(queue=queue, exchange=session.e, arguments=arguments))
        for title, headers in HEADERS.items():
            peer.send_steps(message("", title.encode(), session.e, headers=headers))
        peer.send_steps(publish(1, session.e, "", b"no headers at all"))
        yield from [peer.get(queue).split("} ")[-1] for _ in range(len(HEADERS) + 2)]

    return ask


for _arguments in (
    {"a": 1, "b": "two"},
    {"x-match": "all", "a": 1, "b": "two"},
    {"x-match": "any", "a": 1, "b": "two"},
    {"x-match": "all"},
    {"x-match": "any"},
    {},
    {"x-match": "all", "a": 1, "x-a": 1},
    {"x-match": "any", "x-a": 1},
    {"x-match": "all-with-x", "a": 1, "x-a": 1},
    {"x-match": "any-with-x", "b": "three", "x-a": 1},
    {"x-match": "all", "a": None},
    {"x-match": "any", "a": True},
    {"x-match": 5, "a": 1},
):
    GROUP.add(f"headers binding {_arguments}", by_headers(_arguments))


@GROUP("a message goes through bound exchanges and arrives once")
def through(session: Session) -> Lines:
    peer, inner = session.open(), session.name("inner")
    declare(peer, session.e, "topic")
    declare(peer, inner, "fanout", internal=True)
    queue = peer.declare_queue()
    peer.do(Queue.Bind(queue=queue, exchange=inner), Queue.Bind(queue=queue, exchange=session.e, routing_key="a.#"))
    yield peer.ask(Exchange.Bind(destination=inner, source=session.e, routing_key="#"))
    yield peer.ask(Exchange.Bind(destination=inner, source=session.e, routing_key="#"))
    peer.send_steps(publish(1, session.e, "a.b", b"x"), publish(1, session.e, "c", b"y"))
    yield from [peer.get(queue) for _ in range(3)]
    yield peer.ask(Exchange.Unbind(destination=inner, source=session.e, routing_key="#"))
    peer.send_steps(publish(1, session.e, "c", b"z"))
    yield peer.get(queue)


@GROUP("exchanges bound in a ring")
def ring(session: Session) -> Lines:
    peer, other = session.open(), session.name("other")
    declare(peer, session.e, "fanout", auto_delete=False)
    declare(peer, other, "fanout", auto_delete=False)
    queue = peer.declare_queue()
    peer.do(
        Exchange.Bind(destination=other, source=session.e),
        Exchange.Bind(destination=session.e, source=other),
        Exchange.Bind(destination=session.e, source=session.e),
        Queue.Bind(queue=queue, exchange=other),
    )
    peer.send_steps(publish(1, session.e, "", b"x"))
    yield from [peer.get(queue), peer.get(queue)]
    peer.do(Exchange.Delete(exchange=session.e), Exchange.Delete(exchange=other))


@GROUP("an exchange that deletes itself goes with its last binding")
def auto_delete(session: Session) -> Lines:
    peer = session.open()
    declare(peer, session.e)
    queue = peer.declare_queue()
    yield peer.ask(Exchange.Declare(exchange=session.e, passive=True))
    peer.do(Queue.Bind(queue=queue, exchange=session.e), Queue.Unbind(queue=queue, exchange=session.e))
    yield peer.ask(Exchange.Declare(exchange=session.e, passive=True))


@GROUP("an exchange that deletes itself goes with its last queue")
def auto_delete_queue(session: Session) -> Lines:
    peer = session.open()
    declare(peer, session.e)
    queue = peer.declare_queue()
    peer.do(Queue.Bind(queue=queue, exchange=session.e), Queue.Delete(queue=queue))
    yield peer.ask(Exchange.Declare(exchange=session.e, passive=True))


@GROUP("an exchange that deletes itself goes with the exchange that it is bound to")
def auto_delete_destination(session: Session) -> Lines:
    peer, other = session.open(), session.name("other")
    declare(peer, session.e)
    declare(peer, other, auto_delete=False)
    peer.do(Exchange.Bind(destination=other, source=session.e), Exchange.Delete(exchange=other))
    yield peer.ask(Exchange.Declare(exchange=session.e, passive=True))


@GROUP("an exchange that is only a destination is not in use")
def in_use(session: Session) -> Lines:
    peer = session.open()
    declare(peer, session.e, auto_delete=False)
    peer.do(Exchange.Bind(destination=session.e, source="amq.direct", routing_key=session.q))
    yield peer.ask(Exchange.Delete(exchange=session.e, if_unused=True))


@GROUP("the default exchange routes by the queue's name, and amq exchanges are there")
def default(session: Session) -> Lines:
    peer = session.open()
    for name in ("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"):
        yield f"{name}: " + peer.ask(Exchange.Declare(exchange=name, passive=True))
    yield peer.ask(Exchange.Declare(exchange="amq.match", exchange_type="headers", durable=True))


@GROUP("declare amq.rabbitmq.trace passively")
def trace_passive(session: Session) -> Lines:
    yield session.open().ask(Exchange.Declare(exchange="amq.rabbitmq.trace", passive=True))


@GROUP("publish to amq.rabbitmq.trace")
def trace(session: Session) -> Lines:
    yield session.open().ask(publish(1, "amq.rabbitmq.trace", "k", b"x"), Basic.Qos())


@GROUP("declare the default exchange passively")
def default_passive(session: Session) -> Lines:
    yield session.open().ask(Exchange.Declare(exchange="", passive=True))


@GROUP("exchange.unbind of exchanges that are not there")
def unbind_missing(session: Session) -> Lines:
    yield session.open().ask(Exchange.Unbind(destination="no.such", source="nor.this"))


@GROUP("exchange.unbind from the default exchange")
def unbind_default(session: Session) -> Lines:
    yield session.open().ask(Exchange.Unbind(destination="amq.direct", source=""))


@GROUP("exchange.bind of the default exchange as destination")
def bind_default_destination(session: Session) -> Lines:
    yield session.open().ask(Exchange.Bind(destination="", source="amq.direct"))


@GROUP("exchange.delete amq.rabbitmq.trace")
def delete_trace(session: Session) -> Lines:
    yield session.open().ask(Exchange.Delete(exchange="amq.rabbitmq.trace"))


@GROUP("a name with a line break")
def broken_name(session: Session) -> Lines:
    peer = session.open()
    yield peer.ask(bare(40, 10, b"\0\0" + b"\x08new\nline" + b"\x06direct\x04\0\0\0\0"))
    yield peer.ask(bare(40, 10, b"\0\0" + b"\x07newline" + b"\x06direct\x01\0\0\0\0"))


@GROUP("a long name, and one that is no word")
def names(session: Session) -> Lines:
    peer = session.open()
    none = b"\0\0\0\0"
    for text in ("ø" * 60, "with a blank", "with/slash", "-", "x" * 255):
        name = bytes([len(text.encode())]) + text.encode()
        yield peer.ask(bare(50, 10, b"\0\0" + name + b"\x04" + none))
        yield peer.ask(bare(40, 10, b"\0\0" + name + b"\x06direct\x04" + none))
        yield peer.ask(bare(40, 20, b"\0\0" + name + b"\0"))


# Alternates


@GROUP("what an exchange cannot route goes to its alternate")
def alternate(session: Session) -> Lines:
    peer, other = session.open(), session.name("other")
    declare(peer, other, "fanout", auto_delete=False)
    declare(peer, session.e, arguments={"alternate-exchange": other})
    bound, unbound = peer.declare_queue(), peer.declare_queue()
    peer.do(
        Queue.Bind(queue=bound, exchange=session.e, routing_key="k"),
        Queue.Bind(queue=unbound, exchange=other),
    )
    peer.send_steps(publish(1, session.e, "k", b"routed"), publish(1, session.e, "other", b"not routed"))
    yield from [peer.get(queue) for queue in (bound, bound, unbound, unbound)]
    peer.do(Exchange.Delete(exchange=other))
    yield peer.ask(message("other", b"x", session.e, mandatory=True))


@GROUP("alternates in a ring end, and the message comes back")
def alternate_ring(session: Session) -> Lines:
    peer, other = session.open(), session.name("other")
    declare(peer, session.e, auto_delete=False, arguments={"alternate-exchange": other})
    declare(peer, other, auto_delete=False, arguments={"alternate-exchange": session.e})
    yield peer.ask(message("k", b"x", session.e, mandatory=True))
    peer.do(Exchange.Delete(exchange=session.e), Exchange.Delete(exchange=other))


@GROUP("a bound exchange that routes nowhere has its own alternate")
def alternate_inside(session: Session) -> Lines:
    peer, inner, other = session.open(), session.name("inner"), session.name("other")
    declare(peer, other, "fanout", auto_delete=False)
    declare(peer, session.e, "fanout")
    declare(peer, inner, "direct", arguments={"alternate-exchange": other})
    queue, beside = peer.declare_queue(), peer.declare_queue()
    peer.do(
        Queue.Bind(queue=queue, exchange=other),
        Queue.Bind(queue=beside, exchange=session.e),
        Exchange.Bind(destination=inner, source=session.e),
    )
    peer.send_steps(publish(1, session.e, "k", b"x"))
    yield from [peer.get(queue), peer.get(beside)]
    peer.do(Exchange.Delete(exchange=other))


@GROUP("a standard one is declared with other bits")
def standard_redeclared(session: Session) -> Lines:
    for bits in ({}, {"auto_delete": True}, {"durable": True, "auto_delete": True}):
        yield session.open().ask(Exchange.Declare(exchange="amq.direct", exchange_type="direct", **bits))


@GROUP("redeclare without the alternate")
def alternate_redeclared(session: Session) -> Lines:
    peer = session.open()
    declare(peer, session.e, arguments={"alternate-exchange": "amq.fanout"})
    yield peer.ask(Exchange.Declare(exchange=session.e, auto_delete=True))
    session.open().ask(Exchange.Delete(exchange=session.e))


@GROUP("redeclare with an alternate")
def alternate_added(session: Session) -> Lines:
    peer = session.open()
    declare(peer, session.e)
    arguments = {"alternate-exchange": "amq.fanout"}
    yield peer.ask(Exchange.Declare(exchange=session.e, auto_delete=True, arguments=arguments))
    session.open().ask(Exchange.Delete(exchange=session.e))


# Consistent hash


@GROUP("a consistent hash sends each message to one queue, and a key always to the same")
def consistent_hash(session: Session) -> Lines:
    peer = session.open()
    declare(peer, session.e, "x-consistent-hash")
    queues = [peer.declare_queue() for _ in range(3)]
    for queue in queues:
        yield peer.ask(Queue.Bind(queue=queue, exchange=session.e, routing_key="10"))
    for _ in range(2):
        for number in range(50):
            peer.send_steps(publish(1, session.e, f"key {number}", b"%d" % number))
    found: list[set[str]] = []
    total = 0
    for queue in queues:
        bodies = []
        while "GetEmpty" not in (line := peer.get(queue)):
            bodies.append(line.rpartition(" ")[2])
        total += len(bodies)
        found.append(set(bodies))
    yield f"{total} messages, in one queue each: {sum(map(len, found)) == 50}, all queues used: {all(found)}"


for _weight in ("0", "-1", "a", "", "1.5"):

    def _bad_weight(session: Session, weight: str = _weight) -> Lines:
        peer = session.open()
        declare(peer, session.e, "x-consistent-hash")
        queue = peer.declare_queue()
        yield peer.ask(Queue.Bind(queue=queue, exchange=session.e, routing_key=weight))
        session.open().ask(Exchange.Delete(exchange=session.e))

    GROUP.add(f"a consistent hash binding of weight {_weight!r}", _bad_weight)
