"""What is published, consumed and killed, in which rooms, and by which seed."""

import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import trio
from pamqp import commands

from .consumers import FENCES, AutomaticConsumer, Consumer, Mover
from .declarer import Declarer
from .harness import Harness
from .oracle import Oracle, QueueOracle, Session
from .publishers import Publisher, Route, TransactionPublisher
from .wire import Delivery, Wire

__all__ = ["KILLS", "LIAR", "SCENARIOS", "Scenario", "drawn_kills", "kill_in_turn", "run"]

PATIENCE = 60.0
"""Seconds in which nothing happens, until it counts as a hang: a laden disk may take many for one sync."""

LOOK = 0.05
"""Seconds between two looks at what is left."""

LOOKS = 60
"""Looks in a row at a broker that has nothing left and nothing to wait for, until what is missing counts as lost. Looks
are counted, and not seconds: a machine may stand still for some of these."""


class Clients(NamedTuple):
    """The clients of a scenario.

    Args:
        publishers: End by themselves when it is time to stop.
        declarers: Likewise, and look in the end.
        consumers: Take out everything in the end.
        movers: Take out everything at any time.
        automatic: Take out everything at any time, and remember nothing.
        last: Queues that are read when all else is over.
    """

    publishers: Sequence[Publisher | TransactionPublisher]
    consumers: Sequence[Consumer]
    movers: Sequence[Mover] = ()
    automatic: Sequence[AutomaticConsumer] = ()
    declarers: Sequence[Declarer] = ()
    last: Sequence[str] = ()


class Scenario(NamedTuple):
    """One kind of work.

    Args:
        declare: What there has to be, as methods; answered one by one.
        clients: Makes the clients, and adds all queues to the oracle.
        options: Of the broker's script.
    """

    declare: Sequence[tuple[commands.Queue.Declare | commands.Exchange.Declare | commands.Queue.Bind, type]]
    clients: Callable[[Harness, random.Random], Clients]
    options: Sequence[str] = ()


def _queue(name: str, **arguments: object) -> tuple[commands.Queue.Declare, type]:
    return commands.Queue.Declare(queue=name, durable=True, arguments=arguments or None), commands.Queue.DeclareOk


def _exchange(name: str, kind: str) -> tuple[commands.Exchange.Declare, type]:
    declare = commands.Exchange.Declare(exchange=name, exchange_type=kind, durable=True)
    return declare, commands.Exchange.DeclareOk


def _bind(queue: str, exchange: str, key: str = "") -> tuple[commands.Queue.Bind, type]:
    return commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=key), commands.Queue.BindOk


# One message in several queues: some read fast, one hardly at all

_FANOUT = [
    _exchange("all", "fanout"),
    _exchange("some", "topic"),
    *(_queue(name) for name in ("fast", "slow", "lazy", "topic", FENCES)),
    *(_bind(name, "all") for name in ("fast", "slow", "lazy")),
    _bind("topic", "some", "a.#"),
    _bind("slow", "some", "*.b"),
]
_ROUTES = [
    Route("all", "", ("fast", "slow", "lazy")),
    Route("some", "a.b", ("topic", "slow")),
    Route("some", "a.c", ("topic",)),
    Route("some", "c.b", ("slow",)),
]


def _fanout(harness: Harness, chance: random.Random) -> Clients:
    oracle = harness.oracle
    fast, slow, lazy, topic = (oracle.queue(name) for name in ("fast", "slow", "lazy", "topic"))
    oracle.queue(FENCES, once=True)
    return Clients(
        [
            Publisher(harness, 10, _ROUTES, _own(chance)),
            Publisher(harness, 11, _ROUTES, _own(chance), transient=0.2),
            Publisher(harness, 12, _ROUTES[:1], _own(chance), window=50, sizes=(0, 20_000)),
            TransactionPublisher(harness, 13, _ROUTES, _own(chance)),
        ],
        [
            Consumer(harness, 100, fast, _own(chance)),
            Consumer(harness, 101, slow, _own(chance), most=600),
            Consumer(harness, 102, lazy, _own(chance), most=0),
            Consumer(harness, 103, topic, _own(chance), returns=True),
        ],
        last=[FENCES],
    )


# Messages that go from one queue to another, wait, or overtake

_MOVES = [
    _queue("work", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}),
    _queue("dead"),
    _queue("from"),
    _queue("to"),
    _queue("delayed"),
    _queue("bounded", **{"x-max-length": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "over"}),
    _queue("over"),
    _queue("levels", **{"x-max-priority": 4}),
    _queue(FENCES),
]


def _moves(harness: Harness, chance: random.Random) -> Clients:
    oracle = harness.oracle
    work, delayed = oracle.queue("work"), oracle.queue("delayed", ordered=False)
    oracle.queue("dead", once=True, ordered=False)
    source, levels = oracle.queue("from"), oracle.queue("levels")
    oracle.queue("to", once=True)
    oracle.queue(FENCES, once=True)
    bounded = oracle.queue("bounded", once=True)
    bounded.overflow = oracle.queue("over", once=True)
    to_work = Route("", "work", ("dead",))
    return Clients(
        [
            Publisher(harness, 20, [to_work, to_work._replace(expiration=40)], _own(chance), window=60),
            Publisher(harness, 21, [Route("", "from", ("from", "to"))], _own(chance), window=60),
            Publisher(harness, 23, [Route("", "bounded", ("bounded",))], _own(chance), window=60),
            Publisher(harness, 22, [Route("", "levels", ("levels",), levels=4)], _own(chance), window=60),
        ],
        [
            Consumer(harness, 110, work, _own(chance), rejects=True),
            Consumer(harness, 111, delayed, _own(chance)),
            Consumer(harness, 112, levels, _own(chance), most=400, returns=True),
        ],
        [Mover(harness, source, "to")],
        declarers=[Declarer(harness, 120, _own(chance))],
        last=["dead", "to", "bounded", "over", FENCES],
    )


# One confirm outstanding, and consumers that are often faster than the disk

_EARLY = [
    _exchange("both", "fanout"),
    _exchange("both, automatic", "fanout"),
    *(_queue(name) for name in ("acked", "left", "alone", "automatic", "left too", "from", "to", "dead", FENCES)),
    _queue("work", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}),
    *(_bind(name, "both") for name in ("acked", "left")),
    *(_bind(name, "both, automatic") for name in ("automatic", "left too")),
]


def _early(harness: Harness, chance: random.Random) -> Clients:
    oracle = harness.oracle
    acked, alone, source = (oracle.queue(name) for name in ("acked", "alone", "from"))
    work = oracle.queue("work")
    for name in ("left", "left too", "to", FENCES):
        oracle.queue(name, once=True)
    oracle.queue("dead", once=True, ordered=False)
    routes = [
        Route("both", "", ("acked", "left")),
        Route("both, automatic", "", ("left too",)),
        Route("", "alone", ("alone",)),
        Route("", "from", ("from", "to")),
        Route("", "work", ("dead",)),
    ]
    lone = [Publisher(harness, 40 + number, [route], _own(chance), window=1) for number, route in enumerate(routes)]
    return Clients(
        [*lone, Publisher(harness, 50, routes[:3], _own(chance), window=20)],
        [
            Consumer(harness, 130, acked, _own(chance)),
            Consumer(harness, 131, alone, _own(chance), returns=True),
            Consumer(harness, 132, work, _own(chance), rejects=True),
        ],
        [Mover(harness, source, "to")],
        automatic=[AutomaticConsumer(harness, "automatic")],
        last=["left", "left too", "to", "dead", FENCES],
    )


SCENARIOS = {
    "fanout": Scenario(_FANOUT, _fanout),
    "paging": Scenario(_FANOUT, _fanout, ["--queue-memory=65536"]),
    "moves": Scenario(_MOVES, _moves, ["--delayed=delayed"]),
    "early": Scenario(_EARLY, _early),
}


def _own(chance: random.Random) -> random.Random:
    return random.Random(chance.getrandbits(64))


# Killing


async def _kill_broker(harness: Harness, chance: random.Random) -> bool:
    assert harness.life is not None
    harness.life.kill_broker()
    return True


async def _kill_store(harness: Harness, chance: random.Random) -> bool:
    await harness.signal_store(signal.SIGKILL)
    return False


async def _kill_both(harness: Harness, chance: random.Random) -> bool:
    assert harness.life is not None
    await harness.signal_store(signal.SIGKILL)
    harness.life.kill_broker()
    return True


async def _freeze_and_kill_both(harness: Harness, chance: random.Random) -> bool:
    """Let the broker go on for a while without a store that answers."""
    await harness.signal_store(signal.SIGSTOP)
    with trio.move_on_after(0.2):  # nothing happens any more when all windows are full
        await harness.wait_events(chance.randint(1, 400))
    return await _kill_both(harness, chance)


async def _freeze_until_more_is_confirmed(harness: Harness, chance: random.Random) -> bool:
    """Let a broker go on that confirms without its store, until all that was under way before is behind it."""
    await harness.signal_store(signal.SIGSTOP)
    enough = harness.oracle.confirmed + 2000  # the windows of all publishers are less
    while harness.oracle.confirmed < enough:
        await harness.wait_events(100)
    return await _kill_both(harness, chance)


KILLS = {
    "the broker": _kill_broker,
    "the store": _kill_store,
    "both": _kill_both,
    "both, the store frozen before": _freeze_and_kill_both,
}

LIAR = "both, the store frozen while more was confirmed"
"""What only a broker that confirms too early can be killed by; an honest one confirms nothing meanwhile."""


async def run(
    scenario: Scenario, directory: Path, rounds: Sequence[str], seed: int, *options: str, work: int = 4000
) -> Oracle:
    """Kill again and again, then take everything out; the oracle has the findings.

    Args:
        scenario: The work.
        directory: The store's.
        rounds: What to kill, as in ``KILLS``, one after the other.
        seed: Of everything that is left to chance here; what the system does between is its own affair.
        options: Further ones of the broker's script.
        work: How much happens between two kills, at most: sends, confirms and deliveries.
    """
    chance, oracle = random.Random(seed), Oracle()
    async with trio.open_nursery() as output:
        async with Harness(directory, oracle, *scenario.options, *options) as harness:
            clients = scenario.clients(harness, chance)
            await harness.start(output)
            await _declare(harness, scenario)
            async with trio.open_nursery() as running:
                for client in (*clients.consumers, *clients.movers, *clients.automatic):
                    running.start_soon(client.run)
                async with trio.open_nursery() as publishing:
                    for publisher in (*clients.publishers, *clients.declarers):
                        publishing.start_soon(publisher.run)
                    await kill_in_turn(harness, rounds, chance, work, output)
                    harness.stop_publishing()
                await _empty(harness, clients)
                running.cancel_scope.cancel()
            for name in clients.last:
                await _take_out(harness, oracle.queues[name])
            for declarer in clients.declarers:
                await declarer.look()
            oracle.close()
        output.cancel_scope.cancel()
    return oracle


async def _declare(harness: Harness, scenario: Scenario) -> None:
    async with harness.wire() as wire:
        for request, answer in scenario.declare:
            await wire.call(request, answer)


def drawn_kills(rounds: int, seed: int) -> list[str]:
    """Draw what to kill, one after the other."""
    return random.Random(seed).choices(list(KILLS), k=rounds)


async def kill_in_turn(
    harness: Harness, rounds: Sequence[str], chance: random.Random, work: int, output: trio.Nursery
) -> None:
    """Kill one after the other while others work; arguments are those of ``run``."""
    for number, kind in enumerate(rounds, 1):
        await harness.wait_events(chance.randint(work // 20, work))
        if await (KILLS | {LIAR: _freeze_until_more_is_confirmed})[kind](harness, chance):
            await harness.wait_gone()
            await harness.start(output)
        print(f"round {number}, {kind} killed: {harness.oracle}", flush=True)
    await harness.wait_events(work // 10)


async def _empty(harness: Harness, clients: Clients) -> None:
    """Let everything be taken out; give up when nothing more comes, so that the oracle can report what is missing."""
    queues = [client.queue for client in (*clients.consumers, *clients.movers)]
    harness.drain()
    async with harness.wire() as wire:
        happened, since, looks = -1, trio.current_time(), 0
        while looks < LOOKS and trio.current_time() - since < PATIENCE:
            if happened != harness.event_count:
                happened, since, looks = harness.event_count, trio.current_time(), 0
            ready = [await _count(wire, queue) for queue in queues]
            is_idle = not any(ready) and all(client.is_idle for client in (*clients.consumers, *clients.movers))
            if is_idle and not any(queue.missing for queue in queues):
                return
            looks = looks + 1 if is_idle else 0
            with trio.move_on_after(LOOK):
                await harness.wait_change()


async def _count(wire: Wire, queue: QueueOracle) -> int:
    request = commands.Queue.Declare(queue=queue.name, passive=True)
    return (await wire.call(request, commands.Queue.DeclareOk)).message_count


async def _take_out(harness: Harness, queue: QueueOracle) -> None:
    """Read a queue to its end."""
    async with harness.wire() as wire:
        left = await _count(wire, queue)
        await wire.call(commands.Basic.Consume(queue=queue.name), commands.Basic.ConsumeOk)
        session = Session(harness.oracle, queue)
        while left > 0:
            deliveries = [event for event in await wire.events() if isinstance(event, Delivery)]
            session.ack(message for delivery in deliveries if (message := session.deliver(delivery)) is not None)
            left -= len(deliveries)
