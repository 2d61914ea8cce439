"""How a client shows who it is (SASL, RFC 4422): by a password, without sending it if possible, or by what it has.

What a mechanism says is a response, which may be the first word or follows a challenge of the broker; MTL and MicroMsg2
carry both.
"""

from typing import Final, Protocol

from triomq.errors import AccessRefused, RemoteProtocolError

BY_PASSWORD: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""The best one first: by SCRAM the password is not sent."""


class SASLDialogue(Protocol):
    """One login by one mechanism."""

    mechanism: str

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be said, by either side."""
        ...

    def begin(self) -> bytes:
        """Return the initial response."""
        ...

    def answer(self, challenge: bytes) -> bytes:
        """Return the response to a challenge; may take as long as hashing a password does.

        Raises:
            AccessRefused: The broker has not shown that it knows the password.
            RemoteProtocolError: The challenge makes no sense.
        """
        ...


class _AtOnce:
    """PLAIN (RFC 4616) and EXTERNAL: one response that says all."""

    is_complete = True

    def __init__(self, mechanism: str, response: bytes) -> None:
        self.mechanism = mechanism
        self._response = response

    def begin(self) -> bytes:
        return self._response

    def answer(self, challenge: bytes) -> bytes:
        raise RemoteProtocolError(f"the broker challenges {self.mechanism}, which has said all")


class _ByProof:
    """SCRAM (RFC 5802): both sides show that they know the password."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        from scramp import ScramClient  # with what it brings 2 MB

        self.mechanism = mechanism
        self._client = ScramClient([mechanism], user, password)
        self._challenges = 0

    @property
    def is_complete(self) -> bool:
        return self._challenges == 2

    def begin(self) -> bytes:
        first: str = self._client.get_client_first()
        return first.encode()

    def answer(self, challenge: bytes) -> bytes:
        from scramp import ScramException

        self._challenges += 1
        try:
            if self._challenges == 1:
                self._client.set_server_first(challenge.decode())
                final: str = self._client.get_client_final()
                return final.encode()
            if self._challenges == 2:
                self._client.set_server_final(challenge.decode())
                return b""
        except (ScramException, UnicodeDecodeError) as error:
            raise AccessRefused(f"the broker has not shown that it knows the password ({error}); is it ours?") from None
        raise RemoteProtocolError(f"the broker challenges {self.mechanism} a third time; it has two challenges")


def begin_dialogue(mechanism: str, user: str, password: str) -> SASLDialogue:
    """Return a login by one mechanism.

    Args:
        mechanism: Its name, as the broker writes it.
        user: Who logs in; empty with EXTERNAL for whoever the broker knows us as.
        password: With what, where the mechanism has one.
    """
    if mechanism.upper() == "EXTERNAL":
        return _AtOnce(mechanism, user.encode())
    if mechanism.upper() == "PLAIN":
        return _AtOnce(mechanism, f"\0{user}\0{password}".encode())
    return _ByProof(mechanism.upper(), user, password)
