"""CC and BCC."""

from pamqp import commands

from ..question import Asking, Group, Lines
from ..saying import confirmed, message
from ..talk import Talk

Basic, Confirm, Exchange, Queue = commands.Basic, commands.Confirm, commands.Exchange, commands.Queue

GROUP = Group("copy")


def copied(make: "dict[str, list[int]]") -> Asking:
    """What three queues get, by headers that name them by their numbers."""

    def ask(talk: Talk) -> Lines:
        speaker = talk.open()
        queues = [speaker.declare_queue(name=talk.name(f"q{number}")) for number in range(3)]
        headers = {name: [queues[number] for number in numbers] for name, numbers in make.items()}
        speaker.say(message(queues[0], headers={**headers, "mine": 1}))
        for queue in queues:
            yield speaker.get(queue)
            yield speaker.get(queue)

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
    def ask(talk: Talk) -> Lines:
        speaker = talk.open()
        speaker.declare_queue(name=talk.q)
        speaker.do(Confirm.Select())
        yield from confirmed(speaker, message(talk.q, headers=headers))

    return ask


for _title, _headers in BAD.items():
    GROUP.add(_title, bad(_headers))


@GROUP("a copy is enough for what is mandatory")
def mandatory(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Confirm.Select())
    yield from confirmed(speaker, message("nowhere", mandatory=True, headers={"CC": [talk.q]}))
    yield speaker.get(talk.q)


@GROUP("copies through a topic exchange")
def topic(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Exchange.Declare(exchange=talk.e, exchange_type="topic", auto_delete=True))
    speaker.do(Queue.Bind(queue=talk.q, exchange=talk.e, routing_key="copy.#"))
    speaker.say(message("k", exchange=talk.e, headers={"BCC": ["copy.b"]}))
    yield speaker.get(talk.q)


@GROUP("a fanout gives one for all keys")
def fanout(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Exchange.Declare(exchange=talk.e, exchange_type="fanout", auto_delete=True))
    speaker.do(Queue.Bind(queue=talk.q, exchange=talk.e))
    speaker.say(message("k", exchange=talk.e, headers={"CC": ["a", "b"]}))
    yield from [speaker.get(talk.q), speaker.get(talk.q)]


@GROUP("a return shows BCC")
def returned(talk: Talk) -> Lines:
    yield talk.open().ask(message("nowhere", mandatory=True, headers={"BCC": ["nor here"]}))
