"""Logging in by HTTP Basic (RFC 7617): each request brings its user's name and password.

A request without them is that of the user whose name is in the client's certificate, if it has shown one: what EXTERNAL
is where a protocol has SASL.

A password that has to be worked out takes 16 ms in a thread, so users know those that were right for a minute
(``Users``). The connection knows its last one, as it stood in the header, until any user changes: a keep-alive client
then costs one comparison a request.
"""

from binascii import Error, a2b_base64
from collections.abc import Callable

import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.login import check_password, check_password_nowait
from triomq.security import Credentials
from triomq.transports import TLS, Transport, is_private


def read_basic(header: str) -> Credentials | None:
    """Return what an ``Authorization`` says; None if it is of another scheme, or none at all."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = a2b_base64(encoded.strip(" "), strict_mode=True).partition(b":")
    except (Error, ValueError):  # the second one is about letters beyond ASCII
        return None
    return Credentials(name.decode("utf-8", "surrogateescape"), password) if colon else None


class BasicLogin:
    """Who sends the requests of one connection; made by it, ends with it.

    Args:
        context: What the broker lends.
        transport: The client's.
        realm: What people are asked for when they are to log in.
        tls: How the endpoint speaks TLS, where it does.
        allow_plain_insecure: Whether passwords may come from other machines without TLS.
    """

    __slots__ = ("_context", "_header", "_peer", "_tls", "_transport", "_user", "_version", "realm", "takes_passwords")

    def __init__(
        self,
        context: BrokerContext,
        transport: Transport,
        *,
        realm: str,
        tls: TLS | None,
        allow_plain_insecure: bool,
    ) -> None:
        self.realm = realm
        self.takes_passwords = allow_plain_insecure or transport.is_encrypted or is_private(transport.peer)
        """Whether passwords may come on this way."""
        self._context = context
        self._transport = transport
        self._peer = transport.peer
        self._tls = tls
        self._header = ""  # the last one that was right
        self._user = ""  # whose that is
        self._version = -1  # of all users, at that time

    def user_of(self, header: str) -> str | None:
        """Return whom a header names with the right password; empty if nobody. None if that has to be worked out."""
        users = self._context.users
        if not header:
            name = self._certified()
            return name if name and users.get(name) is not None else ""
        if header == self._header and self._version == users.version and users.get(self._user) is not None:
            return self._user
        credentials = read_basic(header)
        if credentials is None:
            return ""
        version = users.version
        right = check_password_nowait(self._context, self._peer, credentials.name, credentials.password)
        if right:
            self._header, self._user, self._version = header, credentials.name, version
        return None if right is None else credentials.name if right else ""

    def _certified(self) -> str:
        """Return the name in the client's certificate; empty if it has shown none."""
        transport, tls = self._transport, self._tls
        return transport.client_name(tls.client_name) if tls is not None else ""

    def wait(self, header: str) -> float:
        """Return for how many seconds what a header says had better not be sent again; 0 if it can be."""
        credentials = read_basic(header)
        if credentials is None:
            return 0.0
        return self._context.failed_logins.wait(self._peer, credentials.name, trio.current_time())

    async def work_out(self, header: str, done: Callable[[str], object]) -> None:
        """Work out whom a header names, and call something with that, empty if nobody; not in a turn."""
        credentials = read_basic(header)
        assert credentials is not None  # it is to be worked out
        right = await check_password(self._context, self._peer, credentials.name, credentials.password)
        done(credentials.name if right else "")
