"""How a client shows who it is (SASL, RFC 4422): by a password, without sending it if possible, or by its keys.

What a mechanism says is a response, which may be the first word or follows a challenge of the broker; MTL carries both.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from triomq.errors import AccessRefused, RemoteProtocolError

if TYPE_CHECKING:
    from triomq.clients.mtl.url import MTLUrl

_BY_PASSWORD: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
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


def begin_login(url: "MTLUrl", offered: Sequence[str]) -> SASLDialogue:
    """Return the best way to log in of those that a broker offers.

    Raises:
        AccessRefused: There is none, with what the URL has.
    """
    names = {name.upper(): name for name in offered}
    if url.auth_mechanism:
        wanted: Sequence[str] = (url.auth_mechanism.upper(),)
    elif url.user:
        wanted = _BY_PASSWORD
    else:
        wanted = ("EXTERNAL",) if url.keys else ()
    for name in wanted:
        if name in names:
            return _dialogue(name, names[name], url)
    has = "a user and a password" if url.user else "keys" if url.keys else "neither a user nor keys"
    raise AccessRefused(
        f"the broker at {url.address()} takes {', '.join(offered) or 'nothing'}, and the URL has {has}"
        + (f" and asks for {url.auth_mechanism}" if url.auth_mechanism else "")
        + "; write mtl://user:password@…, or keys= and server_key= for EXTERNAL"
    )


def _dialogue(mechanism: str, name: str, url: "MTLUrl") -> SASLDialogue:
    if mechanism == "EXTERNAL":
        return _AtOnce(name, url.user.encode())
    if mechanism == "PLAIN":
        return _AtOnce(name, f"\0{url.user}\0{url.password}".encode())
    return _ByProof(mechanism, url.user, url.password)
