"""Logging in by SASL (RFC 4422): steps, passwords that take a while, and clients that guess.

    mechanism.first(response) ─┬─ Challenge ──> challenged(…) … answer ──> mechanism.next(response) ─┐
                               ├─ Pending ────> a thread works it out, nothing is read meanwhile ────┤
                               ├─ Accepted ───> accepted(user)                                       │
                               └─ Denied ─────> denied()          <──────────────────────────────────┘

A client that fails too often is not judged at all for a while: whatever it sends is denied (``FailedLogins``). Only so
many passwords are worked out at once, each by a thread. While that goes on users may change, so what was found about
users of before is worked out again.

A protocol derives from ``SASLLogin`` and adds its own words. Where each request brings a password, such as with HTTP, a
task awaits ``check_password``.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

import trio

from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.security import (
    Accepted,
    Challenge,
    Credentials,
    Denied,
    External,
    MakeMechanism,
    Mechanism,
    Pending,
    Plain,
    Step,
)
from triomq.transports import TLS, Transport, is_private

C = TypeVar("C", bound=Client)

_log = logging.getLogger("triomq.endpoints")

GATE = "password"
"""Why nothing is read while a thread works something out."""


def offered_mechanisms(
    transport: Transport,
    mechanisms: Mapping[str, MakeMechanism],
    secret: Mapping[str, MakeMechanism],
    *,
    tls: TLS | None,
    plain_to_all: bool,
) -> Mapping[str, MakeMechanism]:
    """Return how a client may log in: by a certificate if it has shown one, by a password where that is allowed.

    Args:
        transport: The client's.
        mechanisms: All of the protocol's, best first.
        secret: Those of them by which a password never goes over the wire.
        tls: What the endpoint listens with.
        plain_to_all: Whether passwords may go over any wire.
    """
    if transport.is_encrypted and tls is not None:
        name = transport.client_name(tls.client_name)
        return {**secret, **({"EXTERNAL": partial(External, name=name)} if name else {}), **mechanisms}
    return mechanisms if plain_to_all or is_private(transport.peer) else secret


class SASLLogin(Generic[C]):
    """The log-in of one client, step by step; made by the client, ends with it.

    Args:
        context: What the broker lends: users, failed logins, threads.
        peer: Where the client comes from.
        mechanisms: How one may log in.
    """

    __slots__ = ("_context", "_mechanism", "_mechanisms", "_peer", "mechanism_name")

    def __init__(self, context: BrokerContext, peer: str, mechanisms: Mapping[str, MakeMechanism]) -> None:
        self.mechanism_name = ""
        self._context = context
        self._peer = peer
        self._mechanisms = mechanisms
        self._mechanism: Mechanism | None = None

    # Hooks of a protocol

    def challenged(self, client: C, challenge: bytes) -> None:
        """Send a challenge; its answer is to come to ``next``."""
        raise NotImplementedError

    def accepted(self, client: C, user: str) -> None:
        """Tell the client that it may go on; it is identified already."""
        raise NotImplementedError

    def denied(self, client: C) -> None:
        """Tell the client so, or leave; it is logged and counted already."""
        raise NotImplementedError

    # Steps

    def first(self, client: C, mechanism: str, response: bytes) -> None:
        """Begin with the mechanism that the client has chosen, and judge what it sends first."""
        self.mechanism_name = mechanism
        make = self._mechanisms.get(mechanism)
        if make is None:
            self.judge(client, Denied(""))
        else:
            self._mechanism = make(self._context.users)
            self.judge(client, self._mechanism.first(response))

    def next(self, client: C, response: bytes) -> None:
        """Judge the answer to a challenge."""
        assert self._mechanism is not None  # it made the challenge
        self.judge(client, self._mechanism.next(response))

    def judge(self, client: C, step: Step) -> None:
        """Do what a step of the mechanism wants."""
        match step:
            case Challenge(challenge):
                self.challenged(client, challenge)
            case Denied(name):
                self._deny(client, name)
            case Pending(name) | Accepted(name) if not may_try(self._context, self._peer, name):
                self._deny(client, name)
            case Pending():
                self.work_out(client, step, self.judge)
            case Accepted(user):
                self._context.failed_logins.succeeded(self._peer, user, trio.current_time())
                client.identify(user)
                self.accepted(client, user)

    def _deny(self, client: C, name: str) -> None:
        _count_failure(self._context, self._peer, name, self.mechanism_name, client.note)
        client.ending = "login refused"
        self.denied(client)

    def work_out(self, client: C, pending: Pending, judge: Callable[[C, Step], None]) -> None:
        """Work something out in a thread, read nothing meanwhile, and then judge it in a turn of the client's."""
        client.hold(GATE)
        client.start_task(self._work_out, client, pending, judge)

    async def _work_out(self, client: C, pending: Pending, judge: Callable[[C, Step], None]) -> None:
        step = await work_out(self._context, pending, lambda: not client.has_left)
        client.ref.run_in_turn(self._finish, client, step, judge)

    def _finish(self, client: C, step: Step, judge: Callable[[C, Step], None]) -> None:
        if not client.has_left and not client.is_finished:
            judge(client, step)
        client.go_on(GATE)


async def check_password(context: BrokerContext, peer: str, name: str, password: bytes) -> bool:
    """Check a name and a password, with all that goes with it: guesses are counted, and not judged when they are many.

    Args:
        context: What the broker lends.
        peer: Where the client comes from.
        name: As whom.
        password: Its password.
    """
    await trio.lowlevel.checkpoint()
    step = Plain(context.users).judge(Credentials(name, password))
    if isinstance(step, Pending) and may_try(context, peer, name):
        step = await work_out(context, step, lambda: may_try(context, peer, name))  # many may have failed meanwhile
    return _judge_password(context, peer, name, step)


def check_password_nowait(context: BrokerContext, peer: str, name: str, password: bytes) -> bool | None:
    """Check a name and a password as ``check_password`` does; None, with nothing done, if it has to be worked out."""
    step = Plain(context.users).judge(Credentials(name, password))
    if isinstance(step, Pending) and may_try(context, peer, name):
        return None
    return _judge_password(context, peer, name, step)


def _judge_password(context: BrokerContext, peer: str, name: str, step: Step) -> bool:
    if isinstance(step, Accepted) and may_try(context, peer, name):
        context.failed_logins.succeeded(peer, name, trio.current_time())
        return True
    _count_failure(context, peer, name, "PLAIN", partial(_log_refusal, peer=peer))
    return False


def may_try(context: BrokerContext, peer: str, name: str) -> bool:
    """Return whether a log-in is judged at all: not if there were too many that failed."""
    return context.failed_logins.may_try(peer, name, trio.current_time())


async def work_out(context: BrokerContext, pending: Pending, is_wanted: Callable[[], bool] = lambda: True) -> Step:
    """Work out, in a thread, what takes a while; a denial if it is not wanted any more when its time comes."""
    users = context.users
    step: Step = pending
    while isinstance(step, Pending):
        async with context.password_limiter:
            if not is_wanted():
                return Denied("")  # there may have been a long queue
            version = users.version
            step = await trio.to_thread.run_sync(pending.work)
        if version != users.version:
            step = pending  # what was found is about users that may be gone
    return step


def _count_failure(context: BrokerContext, peer: str, name: str, mechanism: str, note: Callable[..., None]) -> None:
    """Count a log-in that has failed, and log it, unless there are so many that a line now and then is enough."""
    failed, now = context.failed_logins, trio.current_time()
    if may_try(context, peer, name):
        note(logging.WARNING, "login refused", user=name, mechanism=mechanism)
        if ignored := failed.count(peer, name, now):
            note(logging.WARNING, "too many failed logins", ignored=ignored)
    elif refused := failed.refuse(peer, name, now):
        note(logging.WARNING, "login refused unheard", user=name, mechanism=mechanism, refused=refused)


def _log_refusal(level: int, event: str, **fields: object) -> None:
    _log.log(level, event, extra={"fields": fields})
