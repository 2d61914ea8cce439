"""A protocol of one's own beside AMQP: lines of text over TCP, ``QUEUE name``, ``PUB queue text`` and ``SUB queue``.

Each line is answered with ``OK`` or ``ERR reason``; a message comes as ``MSG bytes``, a line's end, and its body.
``OK`` to ``PUB`` says that the queue has the message in memory; a message is forgotten as soon as it is written. There
is no login, so it listens on the loopback alone, and whoever connects may do what the configured user may.
"""

from typing import Annotated, ClassVar

import msgspec
import trio
from line_engine import Line, LineEngine

from triomq import AMQP, Broker, open_broker
from triomq.checked import Checked
from triomq.core import Batch, DeclareQueue, Outcome, QueueOptions, settle
from triomq.endpoints import BrokerContext, Endpoint, EndpointConfig, StreamClient, StreamListener
from triomq.errors import Refused, TriomqError
from triomq.transports import Transport, name_of


# the protocol
class LineClient(StreamClient):
    """One client: its lines become calls of the base, and what comes of them becomes lines."""

    def __init__(self, transport: Transport, context: BrokerContext, user: str) -> None:
        self.engine = LineEngine()
        super().__init__(transport, self.engine, context)
        self._as_user = user

    def started(self) -> None:
        self.enter(self._as_user, "default")

    def line(self, event: Line) -> None:
        """Obey one line; what is raised here comes to ``refused``, or is a reason to try the same line again later."""
        self.system.turn.charge(5)
        word, _, rest = event.text.decode("utf-8", "replace").strip().partition(" ")
        name, _, text = rest.partition(" ")
        if not 0 < len(name.encode()) <= 255 or name.startswith("amq."):  # AMQP clients see it too
            raise Refused("write QUEUE name, PUB queue text, or SUB queue; a name has up to 255 bytes, and no 'amq.'")
        if word == "QUEUE":
            self.ask(self.domain, DeclareQueue(name, QueueOptions(durable=False), self.session))
        elif word == "PUB":
            self.directory.queue(name, self.session)  # raises NoSuchQueue where a publish would drop the message
            self.publish("", name, text.encode())
        elif word == "SUB":
            self.subscribe(name, no_ack=True)
        else:
            raise Refused(f"{word!r} is unknown; write QUEUE, PUB or SUB")
        self.engine.send(b"OK\n")

    event_handlers: ClassVar = {Line: line}

    def refused(self, event: Line, error: TriomqError) -> None:
        self.engine.send(f"ERR {error}\n".encode())

    def encode(self, batch: Batch) -> None:
        for position in batch.unsettled():
            body = batch.message(position).body
            self.engine.send(b"MSG %d\n%b\n" % (len(body), body))
        settle(batch, Outcome.ACCEPT)

    def cancelled(self, subscription: object, reason: str) -> None:
        self.closing(reason)  # the queue is gone; a client that wants another one connects again


class LineEndpoint(Endpoint):
    def __init__(self, config: "Lines", context: BrokerContext) -> None:
        self.listener = StreamListener(
            lambda transport: LineClient(transport, context, config.user), "127.0.0.1", config.port
        )
        super().__init__(context, self.listener)


# its configuration
class Lines(Checked, EndpointConfig, frozen=True, forbid_unknown_fields=True, tag="lines"):
    """Where to listen for lines, and whose rights clients have."""

    protocol: ClassVar[str] = "lines of text"
    hosts: ClassVar[tuple[str, ...]] = ("127.0.0.1",)

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 7000
    user: str = "guest"

    @property
    def name(self) -> str:
        return f"lines-{self.port}"

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def bound_to(self, port: int) -> "Lines":
        return msgspec.structs.replace(self, port=port)

    def make(self, broker: BrokerContext) -> LineEndpoint:
        return LineEndpoint(self, broker)


# a program that uses it
async def talk(broker: Broker, port: int) -> None:
    """Declare, subscribe and publish by lines, and show that it is the same queue as everybody's."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"QUEUE news\nPUB news by line\nSUB news\n")
        heard = b""
        while not (b"MSG 7\nby line\n" in heard and heard.count(b"OK\n") == 3):
            heard += await stream.receive_some()
        await broker.publish("", "news", b"by Python")
        while b"MSG 9\nby Python\n" not in heard:
            heard += await stream.receive_some()


async def main() -> None:
    async with open_broker(Lines(port=0), AMQP(port=0)) as broker:
        lines, amqp = broker.listening
        await talk(broker, lines.port)
        print(f"lines on {name_of(lines.address)} and AMQP on {name_of(amqp.address)} share their queues")


if __name__ == "__main__":
    trio.run(main)
