"""What endpoints share, whatever their protocol: clients, their users and timers, and how all of it ends in order.

    Endpoint ──1..n── Listener          how clients come: StreamListener, later a ROUTER socket and HTTP
        └─────0..n── Client             a child in place, for each party, with hooks of its protocol

An endpoint knows no socket. It supervises its clients, tells them what happens to their users, turns one wheel of
timers for all of them, and drains: no new clients, those that are there are asked to go, and ``wait_empty`` ends when
they have.
"""

import logging
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import final

import trio

from triomq.actors import ChildSpec, DynamicSupervisor, Message, Ref
from triomq.endpoints.base.client import Client, CloseClient, UserChanged
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.listener import Listener
from triomq.endpoints.base.overriding import check_overriding
from triomq.endpoints.base.wheel import Wheel
from triomq.transports import Address

_log = logging.getLogger("triomq.endpoints")

_TIMERS = 200  # timers that are looked at in a row: some 5 ms of work

_CLIENTS = 300  # clients that get a message in a row: some 10 ms of work


class StopListening(Message, frozen=True):
    """To an endpoint: take no new clients and ask those that are there to go."""


class EndUsers(Message, frozen=True):
    """To an endpoint: users have changed; close clients that have logged in as one of these.

    Args:
        reasons: The reason that each of them is sent.
    """

    reasons: Mapping[str, str]


class RenewCertificates(Message, frozen=True):
    """To an endpoint with TLS: clients that come from now on see these certificates."""

    context: ssl.SSLContext


class Endpoint(DynamicSupervisor):
    """The actor that brings one protocol; a child of the broker's endpoints, made by its configuration.

    Args:
        context: What the broker lends.
        listeners: How clients come; used up with this endpoint.
    """

    def __init_subclass__(cls, **options: object) -> None:
        """Refuse a class that hides a handler, or a name of the actor's own."""
        super().__init_subclass__(**options)
        check_overriding(cls, Endpoint, "on_start and on_stop, which await those of the base, and handlers of its own")

    def __init__(self, context: BrokerContext, *listeners: Listener) -> None:
        super().__init__()
        self.context = context
        self.listeners = listeners
        self._stopping = False
        self._empty = trio.Event()
        self._sleep = trio.CancelScope()  # until the next timer is due
        self.timers = Wheel(trio.current_time, self._wake)
        self._clients: dict[Ref, Client] = {}
        self._served: Counter[str] = Counter()  # by the first part of their names

    @property
    def is_stopping(self) -> bool:
        """Whether it takes no new clients, and those that are there have been asked to go."""
        return self._stopping

    @property
    def others(self) -> Mapping[str, Address]:
        """Where it listens for something else than its clients, by what that is."""
        return {what: address for listener in self.listeners for what, address in listener.others.items()}

    @property
    def addresses(self) -> list[Address]:
        """Where it listens."""
        return [address for listener in self.listeners for address in listener.addresses]

    async def on_start(self) -> None:
        """Listen."""
        await super().on_start()
        for listener in self.listeners:
            await listener.start(self)
        self.start_task(self._watch_timers)

    @final
    async def run(self) -> None:
        try:
            await super().run()
        finally:
            for listener in self.listeners:
                listener.close()

    @final
    def renew_certificates(self, message: RenewCertificates) -> None:
        """Show other certificates from now on."""
        for listener in self.listeners:
            listener.renew_certificates(message.context)

    # Clients

    @final
    def serve(self, client: Client) -> Ref:
        """Start a client."""
        self._served[client.kind] += 1
        name = f"{client.kind}-{self._served[client.kind]}"
        ref = self.start_child_nowait(ChildSpec(client.itself, name=name, restart="temporary"))
        self._clients[ref] = client
        client.ref.run_in_turn(client.begin_work)
        client.ref.run_in_turn(client.reschedule)
        return ref

    @final
    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """Put back what a client that crashed had."""
        client = self._clients.pop(ref, None)
        self.timers.discard(client)
        if error is not None and client is not None:
            # The supervisor has logged why; this is about whom it hit.
            _log.error(f"{client.noun} crashed", extra={"fields": {"connection": ref.path, "user": client.user}})
            client.abandon()
        self.check_empty()

    # Timers

    async def _watch_timers(self) -> None:
        """Do what is due, some of it at a time."""
        while True:
            with trio.CancelScope(deadline=self.timers.next) as self._sleep:
                await trio.sleep_forever()
            while self.timers.turn(_TIMERS):
                await trio.lowlevel.checkpoint()

    def _wake(self) -> None:
        """Sleep less long, for there is a timer that is due sooner."""
        self._sleep.deadline = self.timers.next

    @final
    def reschedule(self, client: Client) -> None:
        """Ask anew when a client is due."""
        if self._clients.get(client.ref) is client:
            when = min(client.due_at(), client.until)
            if when != client.rings_at:
                client.rings_at = when
                self.timers.set(client, when, client.ring)

    # Users

    @final
    def end_users(self, message: EndUsers) -> None:
        """Close clients of users that are gone or may less, and have all others look at their users anew."""
        self._in_steps(list(self._clients), partial(self._end_user, message.reasons))

    def _end_user(self, reasons: Mapping[str, str], ref: Ref) -> None:
        client = self._clients.get(ref)
        if client is None:
            return  # it has gone since the last step
        reason = reasons.get(client.user)
        if reason is not None:
            ref.tell_nowait(CloseClient(reason))
        elif client.user:
            ref.tell_nowait(UserChanged())

    def _in_steps(self, refs: list[Ref], work: Callable[[Ref], None]) -> None:
        """Do something to each of many clients: to the first ones now, to the others when all have had a turn."""
        for ref in refs[:_CLIENTS]:
            work(ref)
        if len(refs) > _CLIENTS:
            self.start_task(self._go_on_in_steps, refs[_CLIENTS:], work)

    async def _go_on_in_steps(self, refs: list[Ref], work: Callable[[Ref], None]) -> None:
        for start in range(0, len(refs), _CLIENTS):
            await trio.lowlevel.checkpoint()
            for ref in refs[start : start + _CLIENTS]:
                work(ref)

    # Drain

    @final
    def stop_listening(self, message: StopListening) -> None:
        """Take no new clients and ask those that are there to go."""
        self._stopping = True
        for listener in self.listeners:
            listener.stop_accepting()
        self._in_steps(list(self._clients), _ask_to_go)
        self.check_empty()

    async def wait_empty(self) -> None:
        """Wait until the last client has gone, and all listeners are quiet, once ``StopListening`` was handled."""
        await self._empty.wait()
        for listener in self.listeners:
            await listener.wait_sent()

    @final
    def check_empty(self) -> None:
        """End ``wait_empty`` if it is time; to be called by a listener whose ``is_quiet`` has become true."""
        if self._stopping and not self.ref.children and all(listener.is_quiet for listener in self.listeners):
            self._empty.set()

    def note_cut(self) -> int:
        """Log which clients are still there, since they are about to be cut, and return how many."""
        return sum(client.note_cut() for client in self._clients.values())


def _ask_to_go(ref: Ref) -> None:
    ref.tell_nowait(CloseClient("the broker is shutting down"))
