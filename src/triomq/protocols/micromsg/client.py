"""The client's side of a MicroMsg2 connection."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import COMMAND, LARGE, PeerError
from triomq.protocols.micromsg.commands import (
    CHALLENGE,
    COMMANDS,
    RESPONSE,
    SASL_NAMES,
    parse_answer,
    start_payload,
    subscribe_command,
    unsubscribe_command,
)
from triomq.protocols.micromsg.engine import MicroMsgEngine
from triomq.protocols.micromsg.events import SASLAccepted, SASLChallenged
from triomq.protocols.micromsg.extensions import PUB_SUB, SASL
from triomq.protocols.micromsg.filters import FilterCondition
from triomq.protocols.micromsg.handshake import Handshake, choice_after, first_handshake
from triomq.protocols.micromsg.settings import Settings
from triomq.protocols.micromsg.states import CLIENT


class MicroMsgClient(MicroMsgEngine):
    """A client's own connection; its first handshake is queued at once.

    Where ``x-sasl`` was agreed, ``HandshakeCompleted`` is to be answered by ``start_login``, and nothing else may be
    sent before ``SASLAccepted``.

    Args:
        now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: extensions, limits and times.
    """

    __slots__ = ("_commands",)

    def __init__(self, *, now: float, settings: Settings | None = None) -> None:
        super().__init__(CLIENT, now, settings)
        self._commands = 0
        self.outbox.put(first_handshake(self._settings))

    def _shake(self, handshake: Handshake) -> None:
        # "If the client or the server doesn't speak the lower version it should send an ERROR frame" (Handshake).
        if handshake.major != 1:
            raise PeerError(505, f"the server speaks major version {handshake.major}; 1 is spoken here")
        self.peer_identity = handshake.identity
        self.is_sharpmessaging = self._settings.is_sharpmessaging or handshake.is_sharpmessaging
        choice, agreement = choice_after(handshake, self._settings)
        self._agree(agreement, handshake, "received HANDSHAKE")
        self.outbox.put(choice)

    # The log-in

    def start_login(self, mechanism: str, response: bytes = b"") -> None:
        """Begin to log in.

        Args:
            mechanism: one that the server has offered.
            response: what it says first.

        Raises:
            LocalProtocolError: there is nothing to log in to.
        """
        if self.state != "closed":
            payload = start_payload(mechanism, response)
            self._move("sent START")
            self._put_extension(SASL, payload)

    def respond(self, response: bytes) -> None:
        """Answer a challenge.

        Raises:
            LocalProtocolError: there was none.
        """
        if self.state != "closed":
            self._move("sent RESPONSE")
            self._put_extension(SASL, bytes((RESPONSE,)) + response)

    def _take_sasl(self, payload: bytes) -> None:
        self._receive(SASL_NAMES.get(payload[0] if payload else 0, "an empty frame of x-sasl"))
        if payload[0] == CHALLENGE:
            self._events.append(SASLChallenged(payload[1:]))
        else:
            self._open()
            self._events.append(SASLAccepted(payload[1:]))

    # Commands

    def subscribe(
        self,
        destination: str,
        conditions: Iterable[FilterCondition] = (),
        subscription_id: str = "",
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> int:
        """Ask for messages.

        Args:
            destination: a topic or a queue.
            conditions: what they must be like.
            subscription_id: a name for it.
            options: what else the server is to know.

        Returns:
            The number of the command, which ``CommandAnswered`` has where ``x-reply`` was agreed. Without that a server
            says nothing if it is done, and ends the connection if not.

        Raises:
            LocalProtocolError: the connection is not open or has no ``pub-sub``, or the command cannot be written.
        """
        return self._command(subscribe_command(destination, conditions, subscription_id, options))

    def unsubscribe(self, destination: str = "", subscription_id: str = "") -> int:
        """End subscriptions by destination or id; see ``subscribe``."""
        return self._command(unsubscribe_command(destination, subscription_id))

    def _command(self, payload: bytes) -> int:
        if self.state == "closed":
            return 0
        self._move("sent COMMAND")
        if not self.speaks(PUB_SUB):
            raise LocalProtocolError(f"the server has no {PUB_SUB}, so there are no commands")
        self._commands = self._commands % COMMANDS + 1
        size = len(payload)
        if size < 256:
            self.outbox.put(bytes((COMMAND, size)) + payload)
        else:
            self.outbox.put(bytes((COMMAND | LARGE,)) + size.to_bytes(4, "big") + payload)
        return self._commands

    def _take_reply(self, payload: bytes) -> None:
        self._receive("REPLY")
        self._events.append(parse_answer(payload))
