"""SCRAM (RFC 5802, RFC 7677): the client proves that it knows the password without sending it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from triomq.security.mechanisms import Accepted, Challenge, Denied, Pending, Step
from triomq.security.users import Users
from triomq.security.verifiers import ScramVerifier

if TYPE_CHECKING:
    from scramp.core import ScramServer


class Scram:
    """One login by SCRAM, in three steps: salt and iterations, the server's proof, accepted.

    A user that does not exist gets the same answers as one that does, with a salt that stays the same, and fails at the
    proof.

    Args:
        users: The users of the broker.
        name: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
    """

    def __init__(self, users: Users, name: str) -> None:
        self._users = users
        self._name = name
        self._user = ""
        self._server: ScramServer | None = None
        self._proven = False

    def first(self, response: bytes) -> Step:
        """Judge the client's first message; without one return an empty challenge."""
        return self.next(response) if response else Challenge(b"")

    def next(self, response: bytes) -> Step:
        """Judge the client's next message."""
        if self._proven:
            return Denied(self._user) if response else Accepted(self._user)
        if self._server is not None:
            return self._finish(self._server, response)
        return self._begin(response, self._users.verifier_nowait)

    def _begin(self, response: bytes, look_up: Callable[[str, str], ScramVerifier | None]) -> Step:
        """Answer the client's first message with salt and iterations (RFC 5802 section 5)."""
        from scramp import ScramException, ScramMechanism  # with what it brings 2 MB, which few brokers need

        found: list[ScramVerifier | None] = []

        def lend(user: str) -> tuple[bytes, bytes, bytes, int] | None:
            self._user = user
            found.append(look_up(user, self._name))
            known = found[0]
            return None if known is None else (known.salt, known.stored_key, known.server_key, known.iterations)

        server = ScramMechanism(self._name).make_server(lend)
        try:
            server.set_client_first(response.decode())
            challenge = str(server.get_server_first()).encode()
        except (ScramException, UnicodeDecodeError):
            return (
                Pending(self._user, lambda: self._begin(response, self._users.verifier))
                if found == [None]
                else Denied(self._user)
            )
        self._server = server
        return Challenge(challenge)

    def _finish(self, server: "ScramServer", response: bytes) -> Step:
        """Check the client's proof against the verifier, and return the server's."""
        from scramp import ScramException

        try:
            server.set_client_final(response.decode())
            challenge = str(server.get_server_final()).encode()
        except (ScramException, UnicodeDecodeError):
            return Denied(self._user)
        if self._users.get(self._user) is None:
            return Denied(self._user)  # its time ended on the way
        self._proven = True
        return Challenge(challenge)
