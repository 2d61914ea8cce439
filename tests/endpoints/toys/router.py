"""A toy over ZeroMQ: one ROUTER, peers with PLAIN, and messages of a command, a number, and arguments.

    HELLO number                                     OK number; it has to be the first
    QUEUE number name                                OK number
    PUB number sink key persistent header body       OK number, when it is placed and on disk
    SUB number queue                                 OK number, then MSG delivery body; END queue if it goes away
    ACK delivery                                     nothing
    PING number                                      OK number; a peer sends it when it has nothing else to send
    QUIT number                                      BYE

What is refused is answered by ``ERR number kind reason``, where an ACK has its delivery for a number. ``BYE reason`` is
the last message to a peer, also to one that is not known any more: it has to begin again.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from endpoints.toy import Lines
from triomq.core import Batch, DeclareQueue, Outcome, Properties, QueueOptions, Subscription
from triomq.endpoints import BrokerContext, Endpoint
from triomq.endpoints.base.endpoint_config import Hosts
from triomq.endpoints.base.peer_listener import PeerListener
from triomq.endpoints.base.router_client import RouterClient
from triomq.endpoints.zmtp import Admission, RouterListener
from triomq.errors import NotFound, Refused, TriomqError
from triomq.transports.zmq import Frames


class Malformed(Refused):
    """A message is none of the protocol's."""


class RouterToyClient(RouterClient):
    """One peer: its messages become calls of the base, and what comes of them becomes messages."""

    silence = 4.0

    def __init__(self, listener: PeerListener, identity: bytes, login: str, context: BrokerContext) -> None:
        super().__init__(listener, identity, login, context)
        self._greeted = False
        self._queues: dict[Subscription, bytes] = {}

    def started(self) -> None:
        self.enter(self.login, "default")

    def handle(self, frames: Frames) -> None:
        command, *arguments = frames
        count, obey = COMMANDS.get(command, (-1, None))
        if not self._greeted and command != b"HELLO":
            self.closing("nothing is left of what you had; begin with HELLO")
        elif obey is None or len(arguments) != count:
            raise Malformed(f"{command!r} with {len(arguments)} frames is unknown; see the table of commands")
        else:
            obey(self, *arguments)

    def overtakes(self, frames: Frames) -> bool:
        return frames[0] in (b"ACK", b"PING", b"QUIT")

    def refused(self, frames: Frames, error: TriomqError) -> None:
        self.send(b"ERR", b"".join(frames[1:2]), type(error).__name__.encode(), str(error).encode())

    # Commands

    def obey_hello(self, number: bytes) -> None:
        self._greeted = True
        self.obey_ping(number)

    def obey_ping(self, number: bytes) -> None:
        self.send(b"OK", number)

    def obey_quit(self, number: bytes) -> None:
        self.closing("as you wish")

    def obey_queue(self, number: bytes, name: bytes) -> None:
        self.ask(self.domain, DeclareQueue(text_of(name), QueueOptions(durable=False), self.session))
        self.send(b"OK", number)

    def obey_pub(self, number: bytes, sink: bytes, key: bytes, persistent: bytes, header: bytes, body: bytes) -> None:
        headers: dict[str, object] | None = {text_of(header): 1} if header else None
        properties = Properties(persistent=persistent == b"yes", headers=headers)
        done = partial(self._answer_placed, number)
        if not self.publish(text_of(sink), text_of(key), body, properties, done):
            raise NotFound("no queue is bound for it")

    def _answer_placed(self, number: bytes, placed: bool) -> None:
        if placed:
            self.send(b"OK", number)
        else:
            self.send(b"ERR", number, b"QueueFull", b"a queue has no room for it")

    def obey_sub(self, number: bytes, queue: bytes) -> None:
        self._queues[self.subscribe(text_of(queue))] = queue
        self.send(b"OK", number)

    def obey_ack(self, delivery: bytes) -> None:
        if not delivery.isdigit():
            raise Malformed(f"{delivery!r} is no number of a delivery")
        self.unsettled.settle_each((int(delivery),), Outcome.ACCEPT)

    # What comes from the broker

    def encode(self, batch: Batch) -> None:
        number = self.unsettled.enter(batch)
        for position in batch.unsettled():
            self.send(b"MSG", b"%d" % (number + position), batch.message(position).body)

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        self.send(b"END", self._queues.pop(subscription))

    def left(self) -> None:
        self.send(b"BYE", self.ending.encode())
        super().left()


def text_of(frame: bytes) -> str:
    """Return a frame as text."""
    try:
        return frame.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{frame!r} is no UTF-8") from None


COMMANDS: Final[Mapping[bytes, tuple[int, Callable[..., Any]]]] = {
    b"HELLO": (1, RouterToyClient.obey_hello),
    b"QUEUE": (2, RouterToyClient.obey_queue),
    b"PUB": (6, RouterToyClient.obey_pub),
    b"SUB": (2, RouterToyClient.obey_sub),
    b"ACK": (1, RouterToyClient.obey_ack),
    b"PING": (1, RouterToyClient.obey_ping),
    b"QUIT": (1, RouterToyClient.obey_quit),
}
"""How many frames follow each command, and what it does."""


class RouterToyEndpoint(Endpoint):
    def __init__(self, config: "RouterToys", context: BrokerContext) -> None:
        make_client = partial(RouterToyClient, context=context)
        self.listener = RouterListener(context, config.host, config.port, make_client, config.admission)
        super().__init__(context, self.listener)


class RouterToys(Lines, frozen=True, forbid_unknown_fields=True, tag="router-toys"):
    host: Hosts = "127.0.0.1"  # type: ignore[assignment]  # lines have one
    admission: Admission = Admission()

    def make(self, broker: BrokerContext) -> RouterToyEndpoint:  # type: ignore[override]  # it is not of lines
        return RouterToyEndpoint(self, broker)
