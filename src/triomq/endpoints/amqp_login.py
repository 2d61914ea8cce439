"""Logging in: who a client of an AMQP connection is, and what it can bear."""

from triomq.protocols import decode_table
from triomq.protocols.amqp import LoginRequested
from triomq.security import Credentials, Users, read_amqplain, read_plain

__all__ = ["LogIn"]


def _amqplain(response: bytes) -> Credentials | None:
    return read_amqplain(response, lambda table: decode_table(len(table).to_bytes(4, "big") + table))


_MECHANISMS = {"PLAIN": read_plain, "AMQPLAIN": _amqplain}


class LogIn:
    """The log-in of one connection, and what the client has said of itself; made by the connection, ends with it.

    Args:
        users: Who may log in.
    """

    __slots__ = ("_capabilities", "_users", "name", "user")

    def __init__(self, users: Users) -> None:
        """Start with nobody."""
        self.name = ""
        self.user = ""
        self._users = users
        self._capabilities: dict[str, object] = {}

    def check(self, event: LoginRequested) -> bool:
        """Tell whether the client is who it says it is; ``user`` is then set, and ``name`` is what it called itself."""
        capabilities = event.client_properties.get("capabilities")
        self._capabilities = dict(capabilities) if isinstance(capabilities, dict) else {}
        read = _MECHANISMS.get(event.mechanism)
        credentials = None if read is None else read(event.response)
        if credentials is None:
            return False
        self.name = credentials.name
        if self._users.check(credentials.name, credentials.password):
            self.user = credentials.name
        return bool(self.user)

    def client_can(self, capability: str) -> bool:
        """Tell whether the client says that it knows an extension of RabbitMQ's."""
        return bool(self._capabilities.get(capability))
