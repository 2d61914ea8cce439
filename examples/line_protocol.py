"""A protocol of one's own beside AMQP: lines of text over TCP, ``QUEUE name``, ``PUB queue text`` and ``SUB queue``.

Each line is answered with ``OK`` or ``ERR reason``; a message comes as ``MSG bytes``, a line's end, and its body.
``OK`` to ``PUB`` says that the queue has the message in memory; a message is forgotten as soon as it is written. There
is no login, so it listens on the loopback alone, and whoever connects may do what the configured user may.
"""

from typing import Annotated, ClassVar

import msgspec
import trio

from triomq import AMQP, Broker, open_broker
from triomq.actors import Supervisor
from triomq.checked import Checked
from triomq.core import (
    CachedRoute,
    DeclareQueue,
    Deliver,
    FeedClosed,
    Head,
    Outcome,
    Publisher,
    PublishingPaused,
    QueueOptions,
    Session,
    Subscription,
    Window,
    settle,
)
from triomq.endpoints import BrokerContext, CloseConnection, Connection, Endpoint, EndpointConfig, Tick
from triomq.errors import Refused
from triomq.transports import Transport, name_of

LONGEST = 64 * 1024  # bytes of a line: what one read takes, so that nobody makes the broker remember more
ON_THE_WAY = 256 * 1024  # bytes of messages that a client may leave unread before its queues wait


class LineConnection(Connection):
    """The actor of one connection: parses, calls the core, and writes; a temporary child of the endpoint."""

    def __init__(self, transport: Transport, broker: BrokerContext, user: str) -> None:
        domain = broker.domains["default"]
        self.user = user
        self._transport = transport
        self._domain, self._directory = domain.ref, domain.directory
        self._access = broker.users.access(user, domain.directory.name)
        self._session = Session(domain.ref, domain.directory, user=user)
        self._lines: list[bytes] = []  # in reverse: the next one is the last
        self._rest = b""
        self.waits: set[str] = set()  # why nothing is read or obeyed for now
        self._out: list[bytes] = []  # what is written at the end of the turn
        self._room = Window(bytes=ON_THE_WAY)
        self._sent = (0, 0)  # messages and bytes that the window counts and the client may not have read
        self._left = False

    def on_start(self) -> None:
        self._publisher = Publisher(self._directory, self._access, self.system.turn)
        self._session.attach()
        self._transport.start(self)

    def received(self, data: bytes) -> None:  # the transport calls it; an actor's work happens in its turn
        self.ref.run_in_turn(self._take, data)

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data or len(self._rest) > LONGEST:
            self._leave()
            return
        self._lines = lines[::-1] + self._lines
        self._work()

    def _work(self) -> None:
        """Obey lines until the turn has done enough, or the broker has a reason to let publishers wait."""
        turn = self.system.turn
        while self._lines and not self.waits and not self._left:
            if turn.exhausted:
                self._wait("others' turn")
                self._go_on_later("others' turn")
                return
            line = self._lines.pop()
            turn.charge(5)
            try:
                self._obey(*line.decode().strip().split(" ", 2))
            except PublishingPaused as paused:  # nothing was taken: the same line again when that is over
                self._lines.append(line)
                self._wait("pressure")
                self._publisher.when_open(paused.pressure, self._over)
            except (Refused, ValueError, trio.WouldBlock) as error:
                self._write(f"ERR {str(error) or 'the queue is being restarted; try again'}\n".encode())
            else:
                self._write(b"OK\n")

    def _wait(self, reason: str) -> None:
        self.waits.add(reason)
        self._transport.pause_reading()

    def _over(self) -> None:
        self._go_on_later("pressure")

    def _go_on_later(self, reason: str) -> None:  # for callers in the middle of another turn
        trio.lowlevel.current_trio_token().run_sync_soon(self.ref.run_in_turn, self._go_on, reason)

    def _go_on(self, reason: str) -> None:
        self.waits.discard(reason)
        if not self.waits and not self._left:
            self._transport.resume_reading()
            self._work()

    def _obey(self, word: str, name: str = "", text: str = "") -> None:
        if not name:
            raise ValueError("write QUEUE name, PUB queue text, or SUB queue")
        if len(name.encode()) > 255 or name.startswith("amq."):
            raise ValueError("a name has up to 255 bytes, and does not begin with 'amq.'")  # AMQP clients see it too
        if word == "QUEUE":
            if not self._access.may_configure(name):
                raise ValueError(f"user {self.user!r} may not declare {name!r}")
            self._domain.ask_nowait(DeclareQueue(name, QueueOptions(durable=False), self._session))
        elif word == "PUB":
            self._directory.queue(name, self._session)  # raises NoSuchQueue where a publish would drop the message
            body = text.encode()
            head = Head(routing_key=name, publisher=self._session.number)
            self._publisher.publish(CachedRoute("", name), head, [body], len(body))
        elif word == "SUB":
            queue = self._directory.queue(name, self._session)
            Subscription(self._session, self._access, queue, self.ref, socket_window=self._room, settles=False).begin()
        else:
            raise ValueError(f"{word!r} is unknown; write QUEUE, PUB or SUB")

    def deliver(self, message: Deliver) -> None:
        batch = message.batch
        bodies = [batch.message(position).body for position in batch.unsettled()]
        count, size = self._sent
        self._sent = count + batch.left, size + batch.size
        settle(batch, Outcome.ACCEPT)
        self._write(b"".join(b"MSG %d\n%b\n" % (len(body), body) for body in bodies))

    def feed_closed(self, message: FeedClosed) -> None:
        self._leave()  # the queue is gone; a client that wants another one connects again

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        self.ref.touch()  # so that ``after_batch`` follows

    def after_batch(self) -> None:
        out, self._out = self._out, []
        if self._left or not out:
            return
        if not self._transport.send_nowait(out):
            self._wait("unread")  # ``drained`` comes when the client has read what it was sent
        elif self._room.waiting:
            self._transport.notify_drained()  # a long backlog goes on in a turn of its own
        else:
            self._give_room()

    def drained(self) -> None:
        self.ref.run_in_turn(self._read_on)

    def _read_on(self) -> None:
        self._give_room()
        self._go_on("unread")

    def _give_room(self) -> None:
        (count, size), self._sent = self._sent, (0, 0)
        if count:
            self._room.give(count, size)

    def close_connection(self, message: CloseConnection) -> None:
        self._leave()

    def _leave(self) -> None:
        assert self.ref.parent is not None
        assert isinstance(self.ref.parent.actor, Supervisor)
        self.ref.parent.actor.stop_child_nowait(self.ref)

    def on_stop(self) -> None:
        self.abandon()

    def abandon(self) -> None:  # also called after a crash
        if not self._left:
            self._left = True
            self._publisher.forget(self._over)
            self._session.detach()
            self._transport.close()

    def due_at(self) -> float:
        return float("inf")

    def tick(self, message: Tick) -> None:
        pass

    def note_user(self) -> None:
        pass

    def note_cut(self) -> bool:
        return False

    def statistics(self) -> None:
        return None


class LineEndpoint(Endpoint):
    def __init__(self, config: "Lines", broker: BrokerContext) -> None:
        super().__init__("127.0.0.1", config.port)
        self._user, self._broker = config.user, broker

    def make_connection(self, transport: Transport) -> LineConnection:
        return LineConnection(transport, self._broker, self._user)


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
