"""Where messages go: exchanges of every type, bindings between them, alternates."""

from pamqp import commands

from ...answers import bare
from ...raw import publish
from ..question import Asking, Group, Lines
from ..saying import message
from ..talk import Speaker, Talk

Basic, Exchange, Queue = commands.Basic, commands.Exchange, commands.Queue

GROUP = Group("exchange")


def declare(speaker: Speaker, name: str, kind: str = "direct", **options: object) -> None:
    speaker.do(Exchange.Declare(exchange=name, exchange_type=kind, **{"auto_delete": True, **options}))  # type: ignore[arg-type]


def routed(kind: str, bindings: list[str], keys: list[str]) -> Asking:
    """Which keys get through to a queue with these bindings."""

    def ask(talk: Talk) -> Lines:
        speaker = talk.open()
        declare(speaker, talk.e, kind)
        queue = speaker.declare_queue()
        for binding in bindings:
            speaker.do(Queue.Bind(queue=queue, exchange=talk.e, routing_key=binding))
        for key in keys:
            speaker.say(publish(1, talk.e, key, key.encode() or b"empty"))
        yield from [speaker.get(queue) for _ in range(len(keys) + 1)]

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
    def ask(talk: Talk) -> Lines:
        speaker = talk.open()
        queue = speaker.declare_queue()
        declare(speaker, talk.e, "headers")
        yield speaker.ask(Queue.Bind(queue=queue, exchange=talk.e, arguments=arguments))
        for title, headers in HEADERS.items():
            speaker.say(message("", title.encode(), talk.e, headers=headers))
        speaker.say(publish(1, talk.e, "", b"no headers at all"))
        yield from [speaker.get(queue).split("} ")[-1] for _ in range(len(HEADERS) + 2)]

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
def through(talk: Talk) -> Lines:
    speaker, inner = talk.open(), talk.name("inner")
    declare(speaker, talk.e, "topic")
    declare(speaker, inner, "fanout", internal=True)
    queue = speaker.declare_queue()
    speaker.do(Queue.Bind(queue=queue, exchange=inner), Queue.Bind(queue=queue, exchange=talk.e, routing_key="a.#"))
    yield speaker.ask(Exchange.Bind(destination=inner, source=talk.e, routing_key="#"))
    yield speaker.ask(Exchange.Bind(destination=inner, source=talk.e, routing_key="#"))
    speaker.say(publish(1, talk.e, "a.b", b"x"), publish(1, talk.e, "c", b"y"))
    yield from [speaker.get(queue) for _ in range(3)]
    yield speaker.ask(Exchange.Unbind(destination=inner, source=talk.e, routing_key="#"))
    speaker.say(publish(1, talk.e, "c", b"z"))
    yield speaker.get(queue)


@GROUP("exchanges bound in a ring")
def ring(talk: Talk) -> Lines:
    speaker, other = talk.open(), talk.name("other")
    declare(speaker, talk.e, "fanout", auto_delete=False)
    declare(speaker, other, "fanout", auto_delete=False)
    queue = speaker.declare_queue()
    speaker.do(
        Exchange.Bind(destination=other, source=talk.e),
        Exchange.Bind(destination=talk.e, source=other),
        Exchange.Bind(destination=talk.e, source=talk.e),
        Queue.Bind(queue=queue, exchange=other),
    )
    speaker.say(publish(1, talk.e, "", b"x"))
    yield from [speaker.get(queue), speaker.get(queue)]
    speaker.do(Exchange.Delete(exchange=talk.e), Exchange.Delete(exchange=other))


@GROUP("an exchange that deletes itself goes with its last binding")
def auto_delete(talk: Talk) -> Lines:
    speaker = talk.open()
    declare(speaker, talk.e)
    queue = speaker.declare_queue()
    yield speaker.ask(Exchange.Declare(exchange=talk.e, passive=True))
    speaker.do(Queue.Bind(queue=queue, exchange=talk.e), Queue.Unbind(queue=queue, exchange=talk.e))
    yield speaker.ask(Exchange.Declare(exchange=talk.e, passive=True))


@GROUP("an exchange that deletes itself goes with its last queue")
def auto_delete_queue(talk: Talk) -> Lines:
    speaker = talk.open()
    declare(speaker, talk.e)
    queue = speaker.declare_queue()
    speaker.do(Queue.Bind(queue=queue, exchange=talk.e), Queue.Delete(queue=queue))
    yield speaker.ask(Exchange.Declare(exchange=talk.e, passive=True))


@GROUP("an exchange that deletes itself goes with the exchange that it is bound to")
def auto_delete_destination(talk: Talk) -> Lines:
    speaker, other = talk.open(), talk.name("other")
    declare(speaker, talk.e)
    declare(speaker, other, auto_delete=False)
    speaker.do(Exchange.Bind(destination=other, source=talk.e), Exchange.Delete(exchange=other))
    yield speaker.ask(Exchange.Declare(exchange=talk.e, passive=True))


@GROUP("an exchange that is only a destination is not in use")
def in_use(talk: Talk) -> Lines:
    speaker = talk.open()
    declare(speaker, talk.e, auto_delete=False)
    speaker.do(Exchange.Bind(destination=talk.e, source="amq.direct", routing_key=talk.q))
    yield speaker.ask(Exchange.Delete(exchange=talk.e, if_unused=True))


@GROUP("the default exchange routes by the queue's name, and amq exchanges are there")
def default(talk: Talk) -> Lines:
    speaker = talk.open()
    for name in ("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"):
        yield f"{name}: " + speaker.ask(Exchange.Declare(exchange=name, passive=True))
    yield speaker.ask(Exchange.Declare(exchange="amq.match", exchange_type="headers", durable=True))


@GROUP("declare amq.rabbitmq.trace passively")
def trace_passive(talk: Talk) -> Lines:
    yield talk.open().ask(Exchange.Declare(exchange="amq.rabbitmq.trace", passive=True))


@GROUP("publish to amq.rabbitmq.trace")
def trace(talk: Talk) -> Lines:
    yield talk.open().ask(publish(1, "amq.rabbitmq.trace", "k", b"x"), Basic.Qos())


@GROUP("declare the default exchange passively")
def default_passive(talk: Talk) -> Lines:
    yield talk.open().ask(Exchange.Declare(exchange="", passive=True))


@GROUP("exchange.unbind of exchanges that are not there")
def unbind_missing(talk: Talk) -> Lines:
    yield talk.open().ask(Exchange.Unbind(destination="no.such", source="nor.this"))


@GROUP("exchange.unbind from the default exchange")
def unbind_default(talk: Talk) -> Lines:
    yield talk.open().ask(Exchange.Unbind(destination="amq.direct", source=""))


@GROUP("exchange.bind of the default exchange as destination")
def bind_default_destination(talk: Talk) -> Lines:
    yield talk.open().ask(Exchange.Bind(destination="", source="amq.direct"))


@GROUP("exchange.delete amq.rabbitmq.trace")
def delete_trace(talk: Talk) -> Lines:
    yield talk.open().ask(Exchange.Delete(exchange="amq.rabbitmq.trace"))


@GROUP("a name with a line break")
def broken_name(talk: Talk) -> Lines:
    speaker = talk.open()
    yield speaker.ask(bare(40, 10, b"\0\0" + b"\x08new\nline" + b"\x06direct\x04\0\0\0\0"))
    yield speaker.ask(bare(40, 10, b"\0\0" + b"\x07newline" + b"\x06direct\x01\0\0\0\0"))


@GROUP("a long name, and one that is no word")
def names(talk: Talk) -> Lines:
    speaker = talk.open()
    none = b"\0\0\0\0"
    for text in ("ø" * 60, "with a blank", "with/slash", "-", "x" * 255):
        name = bytes([len(text.encode())]) + text.encode()
        yield speaker.ask(bare(50, 10, b"\0\0" + name + b"\x04" + none))
        yield speaker.ask(bare(40, 10, b"\0\0" + name + b"\x06direct\x04" + none))
        yield speaker.ask(bare(40, 20, b"\0\0" + name + b"\0"))


# Alternates


@GROUP("what an exchange cannot route goes to its alternate")
def alternate(talk: Talk) -> Lines:
    speaker, other = talk.open(), talk.name("other")
    declare(speaker, other, "fanout", auto_delete=False)
    declare(speaker, talk.e, arguments={"alternate-exchange": other})
    bound, unbound = speaker.declare_queue(), speaker.declare_queue()
    speaker.do(
        Queue.Bind(queue=bound, exchange=talk.e, routing_key="k"),
        Queue.Bind(queue=unbound, exchange=other),
    )
    speaker.say(publish(1, talk.e, "k", b"routed"), publish(1, talk.e, "other", b"not routed"))
    yield from [speaker.get(queue) for queue in (bound, bound, unbound, unbound)]
    speaker.do(Exchange.Delete(exchange=other))
    yield speaker.ask(message("other", b"x", talk.e, mandatory=True))


@GROUP("alternates in a ring end, and the message comes back")
def alternate_ring(talk: Talk) -> Lines:
    speaker, other = talk.open(), talk.name("other")
    declare(speaker, talk.e, auto_delete=False, arguments={"alternate-exchange": other})
    declare(speaker, other, auto_delete=False, arguments={"alternate-exchange": talk.e})
    yield speaker.ask(message("k", b"x", talk.e, mandatory=True))
    speaker.do(Exchange.Delete(exchange=talk.e), Exchange.Delete(exchange=other))


@GROUP("a bound exchange that routes nowhere has its own alternate")
def alternate_inside(talk: Talk) -> Lines:
    speaker, inner, other = talk.open(), talk.name("inner"), talk.name("other")
    declare(speaker, other, "fanout", auto_delete=False)
    declare(speaker, talk.e, "fanout")
    declare(speaker, inner, "direct", arguments={"alternate-exchange": other})
    queue, beside = speaker.declare_queue(), speaker.declare_queue()
    speaker.do(
        Queue.Bind(queue=queue, exchange=other),
        Queue.Bind(queue=beside, exchange=talk.e),
        Exchange.Bind(destination=inner, source=talk.e),
    )
    speaker.say(publish(1, talk.e, "k", b"x"))
    yield from [speaker.get(queue), speaker.get(beside)]
    speaker.do(Exchange.Delete(exchange=other))


@GROUP("a standard one is declared with other bits")
def standard_redeclared(talk: Talk) -> Lines:
    for bits in ({}, {"auto_delete": True}, {"durable": True, "auto_delete": True}):
        yield talk.open().ask(Exchange.Declare(exchange="amq.direct", exchange_type="direct", **bits))


@GROUP("redeclare without the alternate")
def alternate_redeclared(talk: Talk) -> Lines:
    speaker = talk.open()
    declare(speaker, talk.e, arguments={"alternate-exchange": "amq.fanout"})
    yield speaker.ask(Exchange.Declare(exchange=talk.e, auto_delete=True))
    talk.open().ask(Exchange.Delete(exchange=talk.e))


@GROUP("redeclare with an alternate")
def alternate_added(talk: Talk) -> Lines:
    speaker = talk.open()
    declare(speaker, talk.e)
    arguments = {"alternate-exchange": "amq.fanout"}
    yield speaker.ask(Exchange.Declare(exchange=talk.e, auto_delete=True, arguments=arguments))
    talk.open().ask(Exchange.Delete(exchange=talk.e))


# Consistent hash


@GROUP("a consistent hash sends each message to one queue, and a key always to the same")
def consistent_hash(talk: Talk) -> Lines:
    speaker = talk.open()
    declare(speaker, talk.e, "x-consistent-hash")
    queues = [speaker.declare_queue() for _ in range(3)]
    for queue in queues:
        yield speaker.ask(Queue.Bind(queue=queue, exchange=talk.e, routing_key="10"))
    for _ in range(2):
        for number in range(50):
            speaker.say(publish(1, talk.e, f"key {number}", b"%d" % number))
    found: list[set[str]] = []
    total = 0
    for queue in queues:
        bodies = []
        while "GetEmpty" not in (line := speaker.get(queue)):
            bodies.append(line.rpartition(" ")[2])
        total += len(bodies)
        found.append(set(bodies))
    yield f"{total} messages, in one queue each: {sum(map(len, found)) == 50}, all queues used: {all(found)}"


for _weight in ("0", "-1", "a", "", "1.5"):

    def _bad_weight(talk: Talk, weight: str = _weight) -> Lines:
        speaker = talk.open()
        declare(speaker, talk.e, "x-consistent-hash")
        queue = speaker.declare_queue()
        yield speaker.ask(Queue.Bind(queue=queue, exchange=talk.e, routing_key=weight))
        talk.open().ask(Exchange.Delete(exchange=talk.e))

    GROUP.add(f"a consistent hash binding of weight {_weight!r}", _bad_weight)
