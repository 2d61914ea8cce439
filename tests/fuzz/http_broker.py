"""Fuzz a whole broker over HTTP: ``python -m tests.fuzz.http_broker --seconds 60 --seed 1``.

Each input is what one client of RestMS sends, spoilt as for the engine, beside a healthy one that posts messages and
must not notice. No actor may crash, no connection may be left behind, and what is answered is HTTP.
"""

import re
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable
from itertools import count
from random import Random

import trio

from triomq.app import Broker, open_broker
from triomq.endpoints.restms.config import RestMS
from triomq.endpoints.restms.endpoint import RestMSEndpoint
from triomq.protocols.http1 import HTTPClientEngine, ResponseHead

from .broker_fuzz import HEALTHY_EVERY, ROUND, check, connect, converse, within
from .http_words import HTTP, request
from .loop import Violation, fuzz_broker
from .mutations import spoil
from .wires import Wire

GUEST = f"Authorization: Basic {b64encode(b'guest:guest').decode()}"
_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")
_MESSAGE = '<restms><message address="{}"><content type="text/plain" encoding="plain">{}</content></message></restms>'
_POSTS = (
    ("/restms/domain/default", '<restms><pipe type="" title="x"/></restms>'),
    ("/restms/domain/default", '<restms><feed name="f" type="fanout"/></restms>'),
    ("/restms/feed/f", _MESSAGE.format("a", "b")),
    ("/restms/feed/default", _MESSAGE.format("q", "b")),
    ("/restms/feed/default", "<restms><message"),
)


def restms_request(random: Random) -> bytes:
    """Make a request that a broker may well do, mostly as a user."""
    if random.random() < 0.2:
        return request(random)
    lines = ["Host: h", *([GUEST] if random.random() < 0.9 else []), "Content-Type: application/restms+xml"]
    if random.random() < 0.5:
        method = random.choice(("GET", "GET", "HEAD", "DELETE", "PUT", "OPTIONS"))
        path, body = random.choice(("/restms/domain/default", "/restms/feed/f", "/restms/feed/none", "/")), ""
    else:
        method, (path, body) = "POST", random.choice(_POSTS)
        lines.append(f"Content-Length: {len(body)}")
        if random.random() < 0.1:
            lines.append("Expect: 100-continue")
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", body]).encode()


def conversation(random: Random) -> bytes:
    """Make what a client sends."""
    words = [restms_request(random) for _ in range(random.randrange(1, 7))]
    return b"".join(words if random.random() < 0.3 else spoil(random, words, HTTP))


class Healthy:
    """A client that posts messages, while others do what they should not."""

    def __init__(self, broker: Broker, wire: Wire) -> None:
        self._broker = broker
        self._wire = wire
        self._engine = HTTPClientEngine()
        self._numbers = count()

    async def exchange(self) -> None:
        """Post a message, and find it in its queue."""
        body = f"number {next(self._numbers)}"
        name, _, value = GUEST.partition(": ")
        headers = {"Host": "h", name: value, "Content-Type": "application/restms+xml"}
        document = _MESSAGE.format("healthy", body).encode()
        self._engine.send_request("POST", "/restms/feed/default", headers, document)
        for piece in self._engine.data_to_send():
            await self._wire.feed(bytes(piece))
        statuses: list[int] = []
        while self._engine.unanswered:
            if received := self._wire.take():
                self._engine.receive_data(received)
                statuses += [event.status for event in self._engine.events() if isinstance(event, ResponseHead)]
            else:
                await trio.sleep(0.001)
        delivery = await self._broker.queue("healthy").get()
        if delivery is not None:
            delivery.accept()
        if statuses != [200] or delivery is None or delivery.body != body.encode():
            raise Violation(f"the healthy client posted {body!r}, which was answered by {statuses}, and got {delivery}")

    async def leave(self) -> None:
        await self._wire.feed(b"")


async def trial(endpoint: RestMSEndpoint, random: Random) -> str:
    data = conversation(random)
    return outcome(await converse(endpoint.listener, random, data))


def outcome(sent: bytes) -> str:
    """Name how the broker ended a conversation, by its last answer; what it sent must be answers."""
    if not sent:
        return "no answer"
    if not sent.startswith(b"HTTP/1.1 "):
        raise Violation(f"what was sent are no answers: {sent!r}")
    return f"last answer {_STATUS.findall(sent)[-1].decode()}"


def endpoint_of(broker: Broker) -> RestMSEndpoint:
    (ref,) = broker.endpoint_refs.values()
    assert isinstance(ref.actor, RestMSEndpoint)
    return ref.actor


async def run_inputs(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Send a round of inputs to one broker."""
    outcomes = Counter[str]()
    async with open_broker(RestMS(host="127.0.0.1", port=0)) as broker:
        for name in ("q", "healthy"):
            await broker.declare_queue(name, durable=False)
        endpoint = endpoint_of(broker)
        with broker.system.events() as events:
            healthy = Healthy(broker, connect(endpoint.listener, reads=True))
            await within(healthy.exchange(), "the healthy client was not served")
            there = len(endpoint.children)
            for number in numbers:
                try:
                    outcomes[await trial(endpoint, Random(f"http broker {seed}:{number}"))] += 1
                    check(events)
                    if number % HEALTHY_EVERY == 0:
                        await within(healthy.exchange(), "the healthy client was not served")
                except Violation as violation:
                    raise Violation(f"{violation}\n  seed {seed}, input {number}") from violation
            await within(healthy.exchange(), "the healthy client was not served")
            await within(wait_left(endpoint, there), "connections are left though their streams have ended")
            check(events)
            await healthy.leave()
    return outcomes


async def wait_left(endpoint: RestMSEndpoint, there: int) -> None:
    while len(endpoint.children) > there:  # noqa: ASYNC110  # no event says when one is left
        await trio.sleep(0.01)


def main(arguments: list[str] | None = None) -> int:
    return fuzz_broker(__doc__, arguments, ROUND, lambda seed, numbers: trio.run(run_inputs, seed, numbers))


if __name__ == "__main__":
    sys.exit(main())
