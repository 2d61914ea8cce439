"""A client's side of a control session: one command at a time, and its reply.

Each command has an envelope of its own, a number of four octets as REQ_CORRELATE has it, and the server mirrors it. So
a reply to a command that was given up is told from the reply to the next one, on one and the same DEALER.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from triomq.errors import LocalProtocolError
from triomq.protocols.mtl.arguments import PROTOCOL_NAME, PROTOCOL_VERSION, ArgumentFault, decode_blob, encode_blob
from triomq.protocols.mtl.events import (
    ConfirmModel,
    ControlClientEvent,
    DataLeased,
    FlowDirection,
    IllFormed,
    LoginRequired,
    ReplyReceived,
    SASLChallenged,
    SessionReady,
)
from triomq.protocols.mtl.headers import LONGEST_TEXT
from triomq.protocols.mtl.requests import Frames, MTLReply, WireFault, read_reply, request_frames
from triomq.protocols.mtl.settings import MTLSettings
from triomq.protocols.mtl.states import CONTROL_CLIENT, ControlState

_COMMANDS: Final = {"reader": "Connection.Reader", "writer": "Connection.Writer"}
_HIGHEST_PORT: Final = 65_535


class MTLControlClient:
    """A client's side of a control session.

    Whoever has the socket, a DEALER, sends the frames that a command returns, and gives ``receive`` what comes until it
    returns a reply. Nothing that a server sends makes it raise.

    Args:
        settings: Limits.
    """

    __slots__ = ("_asked", "_envelope", "_numbers", "_settings", "state")

    def __init__(self, settings: MTLSettings | None = None) -> None:
        self.state: ControlState = "unknown"
        self._settings = settings or MTLSettings()
        self._numbers = count(1)
        self._asked = ""  # what the table of states calls the command that is not answered
        self._envelope: Frames = ()

    # What goes

    def open(self, virtual_host: str) -> Frames:
        """Ask for a virtual host; answered by 201, or by 401 if a login is wanted.

        Raises:
            LocalProtocolError: Another command is not answered, or this cannot be sent; also of all that follows here.
        """
        protocol = {"name": PROTOCOL_NAME, "version": PROTOCOL_VERSION}
        return self._ask("Open", "Connection.Open", {"protocol": protocol, "virtual-host": virtual_host})

    def authorize(self, mechanism: str, response: bytes | None) -> Frames:
        """Show who this is; ``response`` is None where the mechanism lets the server begin."""
        fields: dict[str, object] = {"mechanism": mechanism}
        if response is not None:
            fields["response"] = encode_blob(response)
        return self._ask("Authorize", "Connection.Authorize", fields)

    def choose_profile(self, profile: str) -> Frames:
        """Choose a profile."""
        return self._ask("Profile", "Connection.Profile", {"profile": profile})

    def ask_lease(
        self,
        direction: FlowDirection,
        resources: Sequence[str],
        confirm: ConfirmModel,
        prefetch: int = 0,
        lease: str = "",
    ) -> Frames:
        """Ask for a data lease.

        Args:
            direction: Whether to read or to write.
            resources: Their names; none for all.
            confirm: Whether contents are confirmed.
            prefetch: How many contents may be unconfirmed; 0 leaves it to the server.
            lease: One that this client had, to go on with if the server still knows it.
        """
        fields: dict[str, object] = {"resources": list(resources), "confirm": confirm}
        if prefetch:
            fields["prefetch"] = prefetch
        if lease:
            fields["lease"] = lease
        return self._ask("Reader" if direction == "reader" else "Writer", _COMMANDS[direction], fields)

    def release(self, lease: str) -> Frames:
        """Give a data lease back; a server without this command has it expire."""
        return self._ask("Release", "Connection.Release", {"lease": lease})

    def call(self, command: str, arguments: Mapping[str, object]) -> Frames:
        """Call a method of the profile, such as ``Queue.Create``."""
        return self._ask("command", command, arguments)

    def close(self) -> Frames:
        """End the session and its leases."""
        return self._ask("Close", "Connection.Close", {})

    def give_up(self) -> None:
        """Wait no longer for a reply, which will be dropped if it comes."""
        self._asked, self._envelope = "", ()

    def _ask(self, asked: str, command: str, arguments: Mapping[str, object]) -> Frames:
        if self._asked:
            raise LocalProtocolError(f"{command} has to wait: {self._asked} is not answered yet")
        if not any(event.startswith(f"{asked} ") for event in CONTROL_CLIENT[self.state]):
            raise LocalProtocolError(f"{command} has no place in state {self.state}")
        envelope = ((next(self._numbers) & 0xFFFFFFFF).to_bytes(4, "big"), b"")
        frames = request_frames(command, arguments, envelope)
        self._asked, self._envelope = asked, envelope
        return frames

    # What comes

    def receive(self, frames: Sequence[bytes]) -> ControlClientEvent:
        """Take a message; whatever is no reply to the command that waits for one is ``IllFormed``."""
        try:
            reply = read_reply(frames, self._settings.longest_reply)
            if not self._asked or reply.envelope != self._envelope:
                raise WireFault("late")
            event = self._read(reply)
        except WireFault as fault:
            return IllFormed(fault.reason)
        self._move(reply.code)
        self.give_up()
        return event

    def _move(self, code: int) -> None:
        row = CONTROL_CLIENT[self.state]
        following = row.get(f"{self._asked} {code}")
        if following is None and code == 401:
            following = row.get("any 401")
        if following is None and code >= 400:
            following = row.get(f"{self._asked} refused")
        self.state = following or self.state

    def _read(self, reply: MTLReply) -> ControlClientEvent:
        """Return what a reply says.

        Raises:
            WireFault: Something in it is not what it has to be.
        """
        fields = reply.fields
        match reply.code:
            case 201 if self._asked in ("Open", "Authorize"):
                return SessionReady(_names(fields, "profiles"))
            case 401:
                return LoginRequired(_names(fields, "mechanisms"))
            case 402 if self._asked == "Authorize":
                return SASLChallenged(_text(fields, "mechanism"), _blob(fields))
            case 202 if self._asked in ("Reader", "Writer"):
                return _read_lease(fields)
            case _:
                reason = fields.get("reason")
                return ReplyReceived(reply.code, reason if isinstance(reason, str) else "", fields)


def _names(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = fields.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WireFault("json")
    return tuple(names)


def _text(fields: Mapping[str, Any], key: str) -> str:
    text = fields.get(key)
    if not isinstance(text, str):
        raise WireFault("json")
    return text


def _blob(fields: Mapping[str, Any]) -> bytes:
    try:
        return decode_blob(fields.get("challenge"))
    except ArgumentFault:
        raise WireFault("json") from None


def _read_lease(fields: Mapping[str, Any]) -> DataLeased:
    port, endpoint = fields.get("port", 0), fields.get("endpoint", "")
    lease = _text(fields, "lease")
    if type(port) is not int or not 0 <= port <= _HIGHEST_PORT or not isinstance(endpoint, str):
        raise WireFault("json")
    if not 0 < len(lease.encode("utf-8", "replace")) <= LONGEST_TEXT:
        raise WireFault("json")
    return DataLeased(lease, port, endpoint)
