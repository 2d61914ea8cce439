"""The server's side of a MicroMsg2 connection."""

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.commands import (
    CHALLENGE,
    COMMANDS,
    OUTCOME,
    SASL_NAMES,
    START,
    answer_payload,
    parse_command,
    parse_start,
)
from triomq.protocols.micromsg.engine import MicroMsgEngine
from triomq.protocols.micromsg.events import SASLResponded
from triomq.protocols.micromsg.extensions import PUB_SUB, REPLY, SASL
from triomq.protocols.micromsg.handshake import Handshake, agreement_of, reply_to
from triomq.protocols.micromsg.settings import Settings
from triomq.protocols.micromsg.states import SERVER

_DONE = range(200, 300)


class MicroMsgServer(MicroMsgEngine):
    """One client's connection, as the server sees it.

    ``SASLStarted`` and ``SASLResponded`` are to be answered by ``challenge``, ``welcome`` or ``fail``;
    ``SubscribeAsked`` and ``UnsubscribeAsked`` by ``answer_command``.

    Args:
        now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: extensions, limits and times.
    """

    __slots__ = ("_commands",)

    def __init__(self, *, now: float, settings: Settings | None = None) -> None:
        super().__init__(SERVER, now, settings)
        self._commands = 0

    def _shake(self, handshake: Handshake) -> None:
        if self.state == "hello":
            # A later version than ours is the client's highest, not its only one: it leaves if it cannot speak ours.
            self.peer_identity = handshake.identity
            self.is_sharpmessaging = handshake.is_sharpmessaging
            reply = reply_to(handshake, self._settings)
            self._receive("HANDSHAKE")
            self.outbox.put(reply)
            return
        if handshake.major != 1:
            raise PeerError(505, f"major version {handshake.major} was chosen; 1 was offered")
        self.is_sharpmessaging = self.is_sharpmessaging or handshake.is_sharpmessaging
        self._agree(agreement_of(handshake, self._settings), handshake, "received CHOICE")

    # The log-in

    def _take_sasl(self, payload: bytes) -> None:
        name = SASL_NAMES.get(payload[0] if payload else 0, "an empty frame of x-sasl")
        self._receive(name)
        self._events.append(parse_start(payload[1:]) if payload[0] == START else SASLResponded(payload[1:]))

    def challenge(self, octets: bytes) -> None:
        """Ask the client for one more response.

        Raises:
            LocalProtocolError: it has asked for nothing.
        """
        if self.state != "closed":
            self._move("sent CHALLENGE")
            self._put_extension(SASL, bytes((CHALLENGE,)) + octets)

    def welcome(self, octets: bytes = b"") -> None:
        """Let the client in.

        Args:
            octets: what its mechanism says last.

        Raises:
            LocalProtocolError: it has asked for nothing.
        """
        if self.state != "closed":
            self._move("sent OUTCOME")
            self._put_extension(SASL, bytes((OUTCOME,)) + octets)
            self._open()

    # Commands

    def _take_command(self, payload: bytes) -> None:
        if not self.speaks(PUB_SUB):
            raise PeerError(501, f"a command, and {PUB_SUB} was not agreed")
        self._commands = self._commands % COMMANDS + 1
        try:
            self._events.append(parse_command(payload, self._commands, self._settings.max_conditions))
        except PeerError as error:
            if not self.speaks(REPLY):
                raise
            self.answer_command(self._commands, error.code, error.text)

    def answer_command(self, number: int, code: int, text: str) -> None:
        """Tell the client what became of a command.

        Without ``x-reply`` there is no word for success, and anything else ends the connection.

        Args:
            number: the command's.
            code: 200 for success, else as HTTP has them.
            text: is cut where it would be too long.

        Raises:
            LocalProtocolError: the connection is not open.
        """
        if self.state == "closed":
            return
        self._move("sent REPLY")
        if not 1 <= number <= COMMANDS:
            raise LocalProtocolError(f"command {number}; commands are numbered 1 to {COMMANDS}")
        if self.speaks(REPLY):
            self._put_extension(REPLY, answer_payload(number, code, text))
        elif code not in _DONE:
            self.fail(code, text)
