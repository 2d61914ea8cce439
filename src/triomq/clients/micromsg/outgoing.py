"""Messages that a connection publishes, from the first moment until the peer has them.

    give ──▶ _given ── fill, within the window ──▶ engine;  _sent ── acked ──▶ confirmed
                ▲                                     │
                └──────── the link is lost ◀──────────┘      sent again, in order, with all the rest

With acks a message is confirmed when the peer has it safely. Without, when it is on its way: what is lost with the
connection then is lost.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from triomq.clients.amqp.confirms import ConfirmReceiver
from triomq.clients.amqp.pipeline import check_body
from triomq.errors import Disconnected, LimitExceeded, LocalProtocolError, TriomqError
from triomq.protocols.micromsg import LONGEST_PROPERTIES, PropertyValue, encode_properties

if TYPE_CHECKING:
    from triomq.clients.micromsg.link import MicroMsgLink

_MOST_GIVEN: Final = 1000
"""Messages that wait to be sent before who publishes waits."""


class GivenMessage(NamedTuple):
    """A message, and who hears what becomes of it: enough to send it again."""

    receiver: ConfirmReceiver
    destination: str
    properties: bytes
    body: bytes


class Outgoing:
    """Made by its connection, and outlives its links.

    Args:
        resends: Whether what was not acknowledged is sent again on the next link.
    """

    def __init__(self, *, resends: bool) -> None:
        self._resends = resends
        self._given: deque[GivenMessage] = deque()
        self._sent: deque[GivenMessage] = deque()
        self._checked: str | None = None  # the last destination that was found well written
        self._room = trio.lowlevel.ParkingLot()

    @property
    def outstanding(self) -> int:
        """How many messages the peer has not acknowledged, or has not been sent."""
        return len(self._given) + len(self._sent)

    @property
    def is_full(self) -> bool:
        """Whether who publishes has to wait for room."""
        return len(self._given) >= _MOST_GIVEN

    async def wait_room(self) -> None:
        """Wait for room, or for an end."""
        await self._room.park()

    def encode(
        self, receiver: ConfirmReceiver, destination: str, body: bytes, properties: Mapping[str, PropertyValue] | None
    ) -> GivenMessage:
        """Return a message as it can be given.

        Raises:
            LocalProtocolError: It cannot be written.
        """
        if type(body) is not bytes:
            check_body(body)
            body = bytes(body)
        if destination != self._checked:
            check_destination(destination)
            self._checked = destination
        encoded = encode_properties(properties) if properties else b""
        if len(encoded) > LONGEST_PROPERTIES:
            raise LocalProtocolError(
                f"the properties have {len(encoded)} octets, and there is room for {LONGEST_PROPERTIES}; shorten them, "
                "or put some into the body"
            )
        return GivenMessage(receiver, destination, encoded, body)

    def give(self, message: GivenMessage) -> None:
        """Add a message."""
        self._given.append(message)

    def fill(self, link: "MicroMsgLink") -> None:
        """Give a link's engine as many messages as the window has room for."""
        while self._given and link.engine.room > 0:
            self._send(link, self._take(link.engine.room, link.engine.largest_body))
        if self._room and not self.is_full:
            self._room.unpark_all()

    def _take(self, most: int, largest: int) -> list[GivenMessage]:
        """Take neighbours that have the same destination and properties."""
        given, taken = self._given, list[GivenMessage]()
        while given and len(taken) < most:
            message = given[0]
            if taken and (message.destination, message.properties) != (taken[0].destination, taken[0].properties):
                break
            given.popleft()
            if len(message.body) > largest:
                message.receiver.failed(len(message.body), _too_large(len(message.body), largest))
            elif not message.receiver.abandoned:
                taken.append(message)
        return taken

    def _send(self, link: "MicroMsgLink", messages: list[GivenMessage]) -> None:
        if not messages:
            return
        destination, properties = messages[0].destination, messages[0].properties
        link.engine.send_messages(destination, properties, [message.body for message in messages])
        if link.has_acks:
            self._sent.extend(messages)
        else:
            _confirm(messages)

    def acked(self, count: int) -> None:
        """Confirm the oldest messages that were sent."""
        sent = self._sent
        _confirm([sent.popleft() for _ in range(min(count, len(sent)))])

    def lost(self, place: str) -> None:
        """Put back what was sent and not acknowledged, or say that nobody knows about it."""
        sent, self._sent = self._sent, deque()
        if self._resends:
            self._given.extendleft(message for message in reversed(sent) if not message.receiver.abandoned)
        else:
            error = Disconnected(
                f"the connection was lost before {place} had acknowledged a message: it has it, or not"
            )
            _fail(sent, error)

    def fail(self, error: TriomqError) -> None:
        """End for good: nothing will be sent any more."""
        left = [*self._sent, *self._given]
        self._sent.clear()
        self._given.clear()
        _fail(left, error)
        self._room.unpark_all()


def check_destination(destination: str) -> None:
    """Refuse what cannot be written as a destination.

    Raises:
        LocalProtocolError: It is none.
    """
    if not destination.isprintable() or not 0 < len(destination.encode()) <= 255:
        raise LocalProtocolError(
            f"the destination is {destination[:60]!r}; it takes 1 to 255 bytes that can be printed, such as "
            "'queue/NAME' or 'topic/NAME'"
        )


def _confirm(messages: Iterable[GivenMessage]) -> None:
    for message in messages:
        message.receiver.confirmed(len(message.body))


def _fail(messages: Iterable[GivenMessage], error: TriomqError) -> None:
    for message in messages:
        message.receiver.failed(len(message.body), error)


def _too_large(size: int, largest: int) -> LimitExceeded:
    return LimitExceeded(f"the body has {size} bytes, and the peer takes {largest} at most; send less, or a reference")
