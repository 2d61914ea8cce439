"""Logging in: AMQP's own words, what a client can bear, and whether it may enter a virtual host.

The steps, slow passwords and the counting of guesses are the base's (``endpoints.base.login``).
"""

import logging
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.login import SASLLogin, may_try
from triomq.errors import AccessRefused
from triomq.protocols import FieldValue, decode_table
from triomq.protocols.amqp import (
    INSTANCE_PROPERTY,
    ORIGIN_PROPERTY,
    ChallengeAnswered,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    LoginRequested,
    OpenRequested,
)
from triomq.security import (
    SCRAM_HASHES,
    Accepted,
    AMQPlain,
    Credentials,
    Denied,
    MakeMechanism,
    Pending,
    Plain,
    Scram,
    Step,
)

if TYPE_CHECKING:
    from triomq.endpoints.amqp.connection import AMQPServerConnection


def _decode_bare(table: bytes) -> Mapping[str, FieldValue]:
    """Decode a field table that comes without its length."""
    return decode_table(len(table).to_bytes(4, "big") + table)


PLAIN_MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType(
    {"PLAIN": Plain, "AMQPLAIN": lambda users: AMQPlain(users, _decode_bare)}
)
"""The SASL mechanisms by which a client sends its password."""

MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType(
    {**{name: partial(Scram, name=name) for name in SCRAM_HASHES}, **PLAIN_MECHANISMS}
)
"""The SASL mechanisms that are offered over any transport, best first."""


class AMQPLogin(SASLLogin["AMQPServerConnection"]):
    """The log-in of one connection, and what the client has sent of itself; made by the connection, ends with it."""

    __slots__ = ("_capabilities", "instance", "origin")

    def __init__(self, context: BrokerContext, peer: str, mechanisms: Mapping[str, MakeMechanism]) -> None:
        super().__init__(context, peer, mechanisms)
        self.origin = ""
        """Where the client comes from, if it tells."""
        self.instance = ""
        """Which of those that come from there it is, if it tells."""
        self._capabilities: dict[str, object] = {}

    def meet(self, properties: Mapping[str, FieldValue]) -> None:
        """Remember what a client tells of itself."""
        capabilities = properties.get("capabilities")
        self._capabilities = dict(capabilities) if isinstance(capabilities, dict) else {}
        origin = properties.get(ORIGIN_PROPERTY)
        self.origin = origin if isinstance(origin, str) else ""
        instance = properties.get(INSTANCE_PROPERTY)
        self.instance = instance if isinstance(instance, str) else ""

    def client_can(self, capability: str) -> bool:
        """Return whether the client knows an extension of RabbitMQ's, as it tells."""
        return bool(self._capabilities.get(capability))

    def challenged(self, client: "AMQPServerConnection", challenge: bytes) -> None:
        """Send connection.secure."""
        client.engine.challenge(challenge)

    def accepted(self, client: "AMQPServerConnection", user: str) -> None:
        """Send connection.tune."""
        client.engine.accept_login()

    def denied(self, client: "AMQPServerConnection") -> None:
        """Close with 403, or without a word: section 1.4.2.2, unless the client can bear one."""
        if self.client_can("authentication_failure_close"):
            name = self.mechanism_name
            client.engine.refuse_login(
                f"Login was refused using authentication mechanism {name}. For details see the broker logfile."
            )
        else:
            client.leave()


# Events (section 2.2.4)


def login_requested(connection: "AMQPServerConnection", event: LoginRequested) -> None:
    """Begin a log-in."""
    connection.login.meet(event.client_properties)
    connection.login.first(connection, event.mechanism, event.response)


def challenge_answered(connection: "AMQPServerConnection", event: ChallengeAnswered) -> None:
    """Continue a log-in."""
    connection.login.next(connection, event.response)


def open_requested(connection: "AMQPServerConnection", event: OpenRequested) -> None:
    """Enter a virtual host, if there is one, the user may be there, and has room for a connection."""
    name, user = event.virtual_host, connection.user
    domain_name = connection.virtual_hosts.get(name)
    domain = None if domain_name is None else connection.context.domains.get(domain_name)
    if domain_name is None or domain is None:
        connection.close(530, f"vhost {name} not found", 10, 40)
        return
    access = connection.context.users.access(user, domain_name)
    if not access.may_enter:
        _refuse_entry(connection, f"access to vhost '{name}' refused for user '{user}'")
    elif not connection.context.quotas.has_room(user, "connections"):
        limit = f"user connection limit ({connection.context.quotas.limit(user, 'connections')}) is reached"
        _refuse_entry(connection, f"connection refused for user '{user}': {limit}")
    else:
        try:
            connection.enter(user, domain_name, virtual_host=name)
        except AccessRefused as refused:
            _refuse_entry(connection, str(refused))
            return
        connection.engine.open_connection()
        connection.note(logging.INFO, "connection opened")


def _refuse_entry(connection: "AMQPServerConnection", text: str) -> None:
    connection.note(logging.WARNING, "connection refused", reason=text)
    connection.ending = text
    connection.close(530, text, 10, 40)


def secret_updated(connection: "AMQPServerConnection", method: ConnectionUpdateSecret) -> None:
    """Check a new secret, of a user whose time is limited; then the connection goes on.

    RabbitMQ looks at no secret of a user of its own.
    """
    user = connection.context.users.get(connection.user)
    if user is None or user.expires is None:
        _renewed(connection, method)
        return
    judged = may_try(connection.context, connection.peer, user.name)
    credentials = Credentials(connection.user, method.new_secret)
    step = Plain(connection.context.users).judge(credentials) if judged else Denied(user.name)
    judge = partial(_judge_update, method=method)
    if isinstance(step, Pending):
        connection.login.work_out(connection, step, judge)
    else:
        judge(connection, step)


def _judge_update(connection: "AMQPServerConnection", step: Step, *, method: ConnectionUpdateSecret) -> None:
    if isinstance(step, Accepted):
        _renewed(connection, method)
        return
    connection.note(logging.WARNING, "secret refused", reason=method.reason)
    connection.context.failed_logins.count(connection.peer, connection.user, trio.current_time())
    connection.ending = connection.ending or "secret refused"
    connection.end_channels()
    connection.close(530, "New secret was refused by one of the backends", 10, 70)


def _renewed(connection: "AMQPServerConnection", method: ConnectionUpdateSecret) -> None:
    connection.note(logging.DEBUG, "secret renewed", reason=method.reason)
    connection.identify(connection.user)
    connection.engine.send_method(0, ConnectionUpdateSecretOk())
