"""A server's side of one control session: commands in, replies out, one after the other.

    client                         server
      │ ── Connection.Open ────────► │  OpenReceived
      │ ◄── 401 mechanisms ───────── │  require_login
      │ ── Connection.Authorize ───► │  AuthorizeReceived
      │ ◄── 402 challenge ────────── │  challenge
      │ ── Connection.Authorize ───► │  AuthorizeReceived
      │ ◄── 201 profiles ─────────── │  ready
      │ ── Connection.Profile ─────► │  ProfileChosen
      │ ◄── 200 ──────────────────── │  done
      │ ── Connection.Writer ──────► │  DataLeaseAsked
      │ ◄── 202 port, lease ──────── │  grant_lease
      │ ── Queue.Create ───────────► │  CommandReceived
      │ ◄── 200 ──────────────────── │  done

Rules:

- Each command has one reply, and they go in the order of the commands. So a command waits until the one before it is
  answered, which may take a while; a few may wait, more are dropped.
- What can be judged without an owner is: commands that have no place in a state (401, 400), that nobody knows (501),
  and arguments that are none (400, 505). What is ill-formed is dropped (11/MTL, control flow error handling).
- Nothing changes before a command is answered. An owner that cannot act on a command at once may put it back, and
  receive the same frames again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from triomq.errors import LocalProtocolError
from triomq.protocols.mtl.arguments import (
    ArgumentFault,
    encode_blob,
    read_authorize,
    read_lease_request,
    read_open,
    read_profile,
    read_release,
)
from triomq.protocols.mtl.codes import STATUSES
from triomq.protocols.mtl.events import (
    AuthorizeReceived,
    CloseReceived,
    CommandReceived,
    ControlServerEvent,
    IllFormed,
    ProfileChosen,
)
from triomq.protocols.mtl.requests import Frames, MTLRequest, WireFault, read_request, reply_frames
from triomq.protocols.mtl.settings import MTLSettings
from triomq.protocols.mtl.states import CONTROL_REFUSALS, CONTROL_SERVER, ControlState

_CONNECTION: Final = "connection."

_EVENTS: Final = {
    "connection.open": "Open",
    "connection.authorize": "Authorize",
    "connection.profile": "Profile",
    "connection.reader": "Reader",
    "connection.writer": "Writer",
    "connection.release": "Release",
    "connection.close": "Close",
}
"""What the table of states calls a command; the profile's own are all "command"."""

_LEAST_REFUSAL: Final = 400


class MTLControlServer:
    """A server's side of one control session.

    Whoever has the socket creates the engine with the first message of a peer, gives ``receive`` each of them, acts on
    the events, and sends what ``messages_to_send()`` returns. Behind each answer it asks for ``next_event()``, until
    there is none. Nothing that a peer sends makes it raise.

    Args:
        mechanisms: Of SASL, which are named wherever a login is wanted; empty where nobody can log in this way.
        settings: Limits.
    """

    __slots__ = (
        "_current",
        "_mechanisms",
        "_messages",
        "_profiles",
        "_settings",
        "_waiting",
        "mechanism",
        "profile",
        "state",
    )

    def __init__(self, mechanisms: Sequence[str] = (), settings: MTLSettings | None = None) -> None:
        self.state: ControlState = "unknown"
        self.profile = ""
        """The one that was chosen."""
        self.mechanism = ""
        """Of the dialogue that goes on."""
        self._mechanisms = tuple(mechanisms)
        self._settings = settings or MTLSettings()
        self._profiles: tuple[str, ...] = ()
        self._current: tuple[MTLRequest, ControlServerEvent, ControlState] | None = None  # and in which state it came
        self._waiting: list[MTLRequest] = []  # few, and an empty deque takes 600 bytes
        self._messages: list[Frames] = []

    # What comes

    def receive(self, frames: Sequence[bytes]) -> ControlServerEvent | None:
        """Take a message, without the identity that a ROUTER has before it.

        Returns:
            What it wants of the owner; None if it is answered already, or waits for the answer to one before it.
        """
        try:
            request = read_request(frames, self._settings.longest_body)
        except WireFault as fault:
            return IllFormed(fault.reason)
        if self._current is None:
            return self._judge(request)
        if len(self._waiting) >= self._settings.most_waiting:
            return IllFormed("too-many")
        self._waiting.append(request)
        return None

    def turn_away(self, frames: Sequence[bytes], reason: str) -> None:
        """Refuse a message at once (403), whatever waits: its sender is to have no session."""
        try:
            request = read_request(frames, self._settings.longest_body)
        except WireFault:
            return
        self._reply(request, 403, {"reason": reason})

    def next_event(self) -> ControlServerEvent | None:
        """Return what the next command wants, unless one is still to be answered; None if there is none."""
        while self._current is None and self._waiting:
            event = self._judge(self._waiting.pop(0))
            if event is not None:
                return event
        return None

    def put_back(self, *, keep: bool) -> None:
        """Take a command back that is to be answered, since its owner cannot act on it at present.

        Args:
            keep: Whether ``next_event`` returns it again; else the same frames will be received again, before others.
        """
        if self._current is not None and keep:
            self._waiting.insert(0, self._current[0])
        self._current = None

    def _judge(self, request: MTLRequest) -> ControlServerEvent | None:
        """Answer a command, or return what its owner is to know, and wait for the answer."""
        name = _EVENTS.get(request.command, "command")
        if not any(event.startswith(f"{name} ") for event in CONTROL_SERVER[self.state]):
            self._refuse(request, CONTROL_REFUSALS[self.state])
        elif not _may_exist(request.command):
            self._refuse(request, 501)
        else:
            try:
                event = self._read(name, request)
            except ArgumentFault as fault:
                self._move(name, fault.code)
                self._refuse(request, fault.code, {"reason": fault.text, **fault.fields})
            else:
                self._current = (request, event, self.state)
                return event
        return None

    def _refuse(self, request: MTLRequest, code: int, fields: Mapping[str, object] | None = None) -> None:
        """Answer a command that the owner does not hear of; without ``fields`` it has no place here."""
        if code == 401:
            fields = {"mechanisms": self._mechanisms}  # and no reason: whom it helps most is a stranger
        elif fields is None and _may_exist(request.command):
            fields = {"reason": "no profile was chosen; send Connection.Profile first"}
        elif fields is None:
            code, fields = 501, {"reason": "there is no such command"}
        self._reply(request, code, fields)

    def _read(self, name: str, request: MTLRequest) -> ControlServerEvent:
        """Read the arguments of a command.

        Raises:
            ArgumentFault: They are none.
        """
        arguments = request.arguments
        match name:
            case "Open":
                return read_open(arguments)
            case "Authorize":
                mechanism, response = read_authorize(arguments, self._mechanisms)
                begins = self.state != "challenged" or mechanism != self.mechanism
                return AuthorizeReceived(mechanism, response, begins)
            case "Profile":
                return read_profile(arguments, self._profiles)
            case "Reader" | "Writer":
                return read_lease_request(arguments, name == "Reader", self._settings.most_resources)
            case "Release":
                return read_release(arguments)
            case "Close":
                return CloseReceived()
            case _:
                return CommandReceived(request.command, arguments)

    # Answers

    def ready(self, profiles: Sequence[str]) -> None:
        """Say that the client is let in, and which profiles it may choose (201)."""
        self._answer(201, {"profiles": tuple(profiles)})
        self._profiles = tuple(profiles)

    def require_login(self) -> None:
        """Say that the client has to show who it is, or has failed to (401)."""
        self._answer(401, {"mechanisms": self._mechanisms})

    def challenge(self, challenge: bytes) -> None:
        """Ask for one more response (402), by the mechanism of the command that is answered."""
        event = self._current_event()
        if not isinstance(event, AuthorizeReceived):
            raise LocalProtocolError(f"{type(event).__name__} is not answered by a challenge")
        self._answer(402, {"mechanism": event.mechanism, "challenge": encode_blob(challenge)})
        self.mechanism = event.mechanism

    def done(self, fields: Mapping[str, object] | None = None) -> None:
        """Say that a command is done (200), and what came of it."""
        self._answer(200, fields or {})

    def grant_lease(self, lease: str, port: int, endpoint: str = "") -> None:
        """Say where a data flow is to be connected, and with which lease (202).

        Args:
            lease: The token.
            port: On the host of this flow.
            endpoint: Where to connect in place of that, if it is no port of TCP; then ``port`` is 0.
        """
        fields: dict[str, object] = {"port": port, "lease": lease}
        if endpoint:
            fields["endpoint"] = endpoint
        self._answer(202, fields)

    def refuse(self, code: int, reason: str = "", fields: Mapping[str, object] | None = None) -> None:
        """Say that a command is not done, and why, for people."""
        if code < _LEAST_REFUSAL or code == 401 or code == 402:
            raise LocalProtocolError(f"{code} {STATUSES.get(code, '')} is no refusal")
        told = {"reason": reason.encode("utf-8", "replace").decode()} if reason else {}
        self._answer(code, {**told, **(fields or {})})

    def expire(self) -> None:
        """Let the client's login end: whatever it says next is answered by 401."""
        self.state = CONTROL_SERVER[self.state].get("expired", self.state)
        self._forget_unless_working()

    def _current_event(self) -> ControlServerEvent:
        if self._current is None:
            raise LocalProtocolError("no command is to be answered")
        return self._current[1]

    def _answer(self, code: int, fields: Mapping[str, object]) -> None:
        """Answer the command that is to be answered.

        Raises:
            LocalProtocolError: There is none, or this is no answer to it, or cannot be written.
        """
        event = self._current_event()
        assert self._current is not None
        request, _, state = self._current  # whose login may have expired meanwhile
        name = _EVENTS.get(request.command, "command")
        if code < _LEAST_REFUSAL and f"{name} {code}" not in CONTROL_SERVER[state]:
            raise LocalProtocolError(f"{code} is no answer to {type(event).__name__}")
        self._reply(request, code, fields)
        self._current = None
        self._move(name, code)
        if isinstance(event, ProfileChosen) and self.state == "working" and code == 200:
            self.profile = event.profile

    def _move(self, name: str, code: int) -> None:
        """Go where the table says for an answer."""
        row = CONTROL_SERVER[self.state]
        following = row.get(f"{name} {code}")
        if following is None and code >= _LEAST_REFUSAL:
            following = row.get(f"{name} refused")
        self.state = following or self.state
        self._forget_unless_working()

    def _forget_unless_working(self) -> None:
        if self.state != "working":
            self.profile = ""
        if self.state != "challenged":
            self.mechanism = ""

    def _reply(self, request: MTLRequest, code: int, fields: Mapping[str, Any]) -> None:
        self._messages.append(reply_frames(code, fields, request.envelope))

    # What goes

    def messages_to_send(self) -> list[Frames]:
        """Return what is to be sent since the last call, in order."""
        messages, self._messages = self._messages, []
        return messages


def _may_exist(command: str) -> bool:
    """Return whether a command is one of Connection, or may be one of a profile: another class and a method."""
    return command in _EVENTS or (command.count(".") == 1 and not command.startswith(_CONNECTION))
