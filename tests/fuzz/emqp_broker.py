"""Fuzz a whole broker over a live ROUTER: ``python -m tests.fuzz.emqp_broker --seconds 60 --seed 1``.

Each input is the conversation of one peer, spoilt as for the engine, sent over a real socket beside a client and a
worker that go on exchanging jobs and must not notice. No actor may crash, and peers that have gone must be forgotten.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from random import Random

import trio
import zmq

from triomq.actors import Exited
from triomq.app import open_broker
from triomq.clients import EMQPConnection, open_emqp, open_emqp_worker
from triomq.endpoints import EMQP
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.endpoints.emqp.peer import EMQPPeer
from triomq.protocols.emqp import Extension, make_headers
from triomq.transports.zmq import ZMQSocket, close_context, make_context

from .broker_fuzz import within
from .emqp_engine import Input, generate
from .loop import Violation, fuzz_broker

ROUND = 200
"""Inputs for one broker."""

_HEALTHY_EVERY = 10
_WANTED = make_headers(reply_requested=True)
_ITEMS = [b"1", b"2", b"3"]
_CONFIG = EMQP(port=0, publish_port=0, topic_port=0, heartbeat=0.1, silence=0.6)


def conversation(random: Random) -> Input:
    """Make the conversation of a peer that wants something of a broker."""
    while True:
        given = generate(random)
        if given.side == "broker":
            return given


class Attacker:
    """One peer; sends all that it has, hears a part of the answers perhaps, and goes without a word."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], port: int, random: Random) -> None:
        self._socket = ZMQSocket(context, zmq.DEALER)
        self._reads = random.random() < 0.7
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    async def play(self, given: Input) -> str:
        for message in given.messages:
            if message:  # ZeroMQ has no message without a frame
                await self._socket.send(message)
        heard = 0
        if self._reads:
            with trio.move_on_after(0.005):
                heard = len(await self._socket.receive())
        self._socket.close(linger=0.2)
        return "answers" if heard else "no answer"


async def run_inputs(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Send a round of inputs to one broker."""
    outcomes = Counter[str]()
    async with open_broker(_CONFIG, drain=0.2) as broker:
        (endpoint,) = (ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, EMQPEndpoint))
        ports = [address[1] for address in endpoint.addresses]
        url = f"emqp://127.0.0.1:{ports[0]}?heartbeat=0.1"
        await broker.declare_queue("healthy", durable=False)
        context = make_context()

        async def work() -> None:
            async with open_emqp_worker(url, ["healthy"], slots=2) as worker:
                async for job in worker:
                    job.progress(b"1")
                    for item in _ITEMS:
                        await job.item(item)
                    job.reply(job.message)

        async def exchange(client: EMQPConnection) -> None:
            await client.wait_room()
            request = client.begin("healthy", b"[1]", _WANTED, Extension(stream=True))
            items = [item async for item in request.items()]
            reply = await request.reply()
            if reply.message != b"[1]" or items != _ITEMS:
                raise Violation(f"the healthy client was answered {reply} and sent {items}")

        def is_forgotten() -> bool:
            # Asked anew each time: what an attacker has sent last may come, and make another guest, when it has gone.
            guests = sum(peer.engine.state == "guest" for peer in endpoint.peers.values())
            return sum(isinstance(child.actor, EMQPPeer) for child in endpoint.children.values()) <= 2 + guests

        with broker.system.events() as events:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work)
                async with open_emqp(url) as client:
                    await within(exchange(client), "the healthy client was not served")
                    for number in numbers:
                        random = Random(f"emqp broker {seed}:{number}")
                        given = conversation(random)
                        outcomes[await Attacker(context, random.choice(ports), random).play(given)] += 1
                        for event in events.get_nowait():
                            if isinstance(event, Exited) and event.error is not None:
                                raise Violation(
                                    f"{event.ref.path} crashed: {event.error!r}\n"
                                    f"  seed {seed}, about input {number}, {given.describe()}"
                                ) from event.error
                        if number % _HEALTHY_EVERY == 0:
                            await within(exchange(client), f"the healthy client was not served, input {number}")
                    with trio.move_on_after(10):
                        while not is_forgotten():  # noqa: ASYNC110  # no event says when one is forgotten
                            await trio.sleep(0.02)
                    if not is_forgotten():
                        states = Counter(peer.engine.state for peer in endpoint.peers.values())
                        raise Violation(f"peers that have gone are still here, seed {seed}: {dict(states)}")
                    await within(exchange(client), "the healthy client was not served at the end")
                nursery.cancel_scope.cancel()
        await close_context(context)
    return outcomes


def play(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Send a round of inputs, and let a violation come out bare."""
    try:
        return trio.run(run_inputs, seed, numbers)
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from group


def main(arguments: list[str] | None = None) -> int:
    return fuzz_broker(__doc__, arguments, ROUND, play)


if __name__ == "__main__":
    sys.exit(main())
