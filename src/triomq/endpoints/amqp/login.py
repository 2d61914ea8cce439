"""Logging in: who a client of an AMQP connection is, what it can bear, and whether it is let into a virtual host.

What has to be worked out, such as a password that is held against a verifier, is worked out by a thread; the connection
reads nothing meanwhile. Who fails too often is not even heard.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import trio

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
    Challenge,
    Credentials,
    Denied,
    MakeMechanism,
    Mechanism,
    Pending,
    Plain,
    Scram,
    Step,
    Users,
)

if TYPE_CHECKING:
    from triomq.endpoints.amqp.connection import AMQPConnection

_GATE = "password"


def _decode_bare(table: bytes) -> Mapping[str, FieldValue]:
    """Decode a field table that comes without its length."""
    return decode_table(len(table).to_bytes(4, "big") + table)


PLAIN_MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType(
    {"PLAIN": Plain, "AMQPLAIN": lambda users: AMQPlain(users, _decode_bare)}
)
"""The SASL mechanisms by which a client says its password."""

MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType(
    {**{name: partial(Scram, name=name) for name in SCRAM_HASHES}, **PLAIN_MECHANISMS}
)
"""The SASL mechanisms that are offered over any transport, best first."""


class LogIn:
    """The log-in of one connection, and what the client has said of itself; made by the connection, ends with it.

    Args:
        users: Who may log in.
        mechanisms: How.
    """

    __slots__ = ("_capabilities", "_mechanism", "_mechanisms", "_users", "instance", "mechanism_name", "origin")

    def __init__(self, users: Users, mechanisms: Mapping[str, MakeMechanism]) -> None:
        self.mechanism_name = ""
        self.origin = ""
        """Where the client says that it comes from, if it says so."""
        self.instance = ""
        """Which of those that come from there it is, if it says so."""
        self._users = users
        self._mechanisms = mechanisms
        self._mechanism: Mechanism | None = None
        self._capabilities: dict[str, object] = {}

    def first(self, event: LoginRequested) -> Step:
        """Begin with the mechanism that the client has chosen, and judge what it says first."""
        self._note_client(event)
        make = self._mechanisms.get(event.mechanism)
        if make is None:
            return Denied("")
        self._mechanism = make(self._users)
        return self._mechanism.first(event.response)

    def _note_client(self, event: LoginRequested) -> None:
        capabilities = event.client_properties.get("capabilities")
        self._capabilities = dict(capabilities) if isinstance(capabilities, dict) else {}
        self.mechanism_name = event.mechanism
        origin = event.client_properties.get(ORIGIN_PROPERTY)
        self.origin = origin if isinstance(origin, str) else ""
        instance = event.client_properties.get(INSTANCE_PROPERTY)
        self.instance = instance if isinstance(instance, str) else ""

    def next(self, event: ChallengeAnswered) -> Step:
        """Judge the answer to a challenge."""
        assert self._mechanism is not None  # it made the challenge
        return self._mechanism.next(event.response)

    def client_can(self, capability: str) -> bool:
        """Tell whether the client says that it knows an extension of RabbitMQ's."""
        return bool(self._capabilities.get(capability))


# Events (section 2.2.4)


def login_requested(connection: "AMQPConnection", event: LoginRequested) -> None:
    """Begin a log-in."""
    _judge(connection, connection.login.first(event))


def challenge_answered(connection: "AMQPConnection", event: ChallengeAnswered) -> None:
    """Go on with a log-in."""
    _judge(connection, connection.login.next(event))


def _is_heard(connection: "AMQPConnection", user: str) -> bool:
    """Tell whether what a client says is looked at; whether it is depends on who it says that it is."""
    return connection.broker.failed_logins.may_try(connection.peer, user, trio.current_time())


def _judge(connection: "AMQPConnection", step: Step) -> None:
    match step:
        case Challenge(challenge):
            connection.engine.challenge(challenge)
        case Denied(name):
            _deny(connection, name)
        case Pending(name) | Accepted(name) if not _is_heard(connection, name):
            _deny(connection, name)
        case Pending():
            connection.gates.close(_GATE)
            connection.start_task(_work_out, connection, step, _finish)
        case Accepted(user):
            connection.broker.failed_logins.succeeded(connection.peer, user, trio.current_time())
            connection.authenticated(user)
            connection.engine.accept_login()


async def _work_out(
    connection: "AMQPConnection", pending: Pending, finish: Callable[["AMQPConnection", Step], None]
) -> None:
    """Work out what takes a while in a thread, and go on with what comes of it."""
    users = connection.broker.users
    step: Step = pending
    while isinstance(step, Pending):
        async with connection.broker.password_limiter:
            if connection.has_left:
                return  # there may have been a long queue
            version = users.version
            step = await trio.to_thread.run_sync(pending.work)
        if version != users.version:
            step = pending  # what was found is about users that may be gone
    connection.ref.run_in_turn(finish, connection, step)


def _finish(connection: "AMQPConnection", step: Step) -> None:
    if not connection.has_left and not connection.engine.finished:
        _judge(connection, step)
    connection.go_on(_GATE)


def _deny(connection: "AMQPConnection", name: str) -> None:
    mechanism, failed, now = connection.login.mechanism_name, connection.broker.failed_logins, trio.current_time()
    if _is_heard(connection, name):
        connection.note(logging.WARNING, "login refused", user=name, mechanism=mechanism)
        if ignored := failed.count(connection.peer, name, now):
            connection.note(logging.WARNING, "too many failed logins", ignored=ignored)
    elif refused := failed.refuse(connection.peer, name, now):
        connection.note(logging.WARNING, "login refused unheard", user=name, mechanism=mechanism, refused=refused)
    connection.ending = "login refused"
    if connection.login.client_can("authentication_failure_close"):
        connection.engine.refuse_login(
            f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
        )
    else:
        # Who is refused hears nothing more (section 1.4.2.2), unless the client says that it can bear a word.
        connection.leave()


def open_requested(connection: "AMQPConnection", event: OpenRequested) -> None:
    """Let a client into a virtual host, if there is one, the user may be there, and has room for a connection."""
    name, user = event.virtual_host, connection.user
    domain_name = connection.virtual_hosts.get(name)
    domain = None if domain_name is None else connection.broker.domains.get(domain_name)
    if domain_name is None or domain is None:
        connection.engine.close(530, f"vhost {name} not found", 10, 40)
        return
    access = connection.broker.users.access(user, domain_name)
    if not access.may_enter:
        _keep_out(connection, f"access to vhost '{name}' refused for user '{user}'")
    elif not connection.broker.quotas.has_room(user, "connections"):
        limit = f"user connection limit ({connection.broker.quotas.limit(user, 'connections')}) is reached"
        _keep_out(connection, f"connection refused for user '{user}': {limit}")
    elif not connection.come_from(domain_name):
        said = f"origin '{connection.login.origin}' of user '{user}'"
        _keep_out(connection, f"{said} is here already, and is another broker; give each an origin of its own")
    else:
        connection.enter(name, domain, access)
        connection.engine.open_connection()
        connection.note(logging.INFO, "connection opened")


def _keep_out(connection: "AMQPConnection", text: str) -> None:
    connection.note(logging.WARNING, "connection refused", reason=text)
    connection.ending = text
    connection.engine.close(530, text, 10, 40)


def secret_updated(connection: "AMQPConnection", method: ConnectionUpdateSecret) -> None:
    """Take a new secret; of a user whose time is limited it is looked at, and then lets the connection go on.

    RabbitMQ looks at no user's that it keeps itself.
    """
    user = connection.broker.users.get(connection.user)
    if user is None or user.expires is None:
        _renewed(connection, method)
        return
    credentials = Credentials(connection.user, method.new_secret)
    step = Plain(connection.broker.users).judge(credentials) if _is_heard(connection, user.name) else Denied(user.name)
    if isinstance(step, Pending):
        connection.gates.close(_GATE)
        connection.start_task(_work_out, connection, step, partial(_finish_update, method=method))
    else:
        _judge_update(connection, step, method)


def _finish_update(connection: "AMQPConnection", step: Step, method: ConnectionUpdateSecret) -> None:
    if not connection.has_left and not connection.engine.finished:
        _judge_update(connection, step, method)
    connection.go_on(_GATE)


def _judge_update(connection: "AMQPConnection", step: Step, method: ConnectionUpdateSecret) -> None:
    if isinstance(step, Accepted):
        _renewed(connection, method)
        return
    connection.note(logging.WARNING, "secret refused", reason=method.reason)
    connection.broker.failed_logins.count(connection.peer, connection.user, trio.current_time())
    connection.ending = connection.ending or "secret refused"
    connection.end_channels()
    connection.engine.close(530, "New secret was refused by one of the backends", 10, 70)


def _renewed(connection: "AMQPConnection", method: ConnectionUpdateSecret) -> None:
    connection.note(logging.DEBUG, "secret renewed", reason=method.reason)
    connection.note_user()
    connection.engine.send_method(0, ConnectionUpdateSecretOk())
