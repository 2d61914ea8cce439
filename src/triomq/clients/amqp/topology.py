"""What a client has declared and bound, to be done again after a reconnect."""

from collections.abc import Awaitable, Callable

import msgspec

from triomq.protocols import encode_table
from triomq.protocols.amqp import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueUnbind,
)

Binding = QueueBind | ExchangeBind
_Key = tuple[type[Binding], str, str, str, bytes]
Ask = Callable[[Method, type[Method]], Awaitable[Method]]
"""Sends a method and waits for its reply."""


class Topology:
    """Owned by one connection that reconnects: what it has made and not deleted, in order.

    A queue that the broker has named gets another name when it is declared again. ``current`` maps the old name to the
    new one.
    """

    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeDeclare] = {}
        self.queues: dict[str, QueueDeclare] = {}
        self.bindings: dict[_Key, Binding] = {}
        self._renamed: dict[str, str] = {}

    def current(self, name: str) -> str:
        """Return the present name of a queue."""
        return self._renamed.get(name, name) if self._renamed else name

    # Persistence

    def declared_exchange(self, method: ExchangeDeclare) -> None:
        """Record an exchange."""
        if not method.passive:
            self.exchanges[method.exchange] = method

    def declared_queue(self, name: str, method: QueueDeclare) -> None:
        """Record a queue; the method's own name is empty where the broker has named it."""
        if not method.passive and name not in self.queues:
            self.queues[name] = method

    def bound(self, method: Binding) -> None:
        """Record a binding."""
        self.bindings[_key(method)] = method

    # Forgetting

    def unbound(self, method: QueueUnbind | ExchangeUnbind) -> None:
        """Remove a binding."""
        self.bindings.pop(_key(method), None)

    def deleted_exchange(self, name: str) -> None:
        """Remove an exchange, and the bindings from it and to it."""
        self.exchanges.pop(name, None)
        self._drop_bindings(ExchangeBind, name)
        for key in [key for key in self.bindings if key[2] == name]:
            del self.bindings[key]

    def deleted_queue(self, name: str) -> None:
        """Remove a queue and its bindings."""
        self.queues.pop(name, None)
        self._drop_bindings(QueueBind, name)

    def consumer_ended(self, queue: str, *, others: bool) -> None:
        """Remove a queue that goes with its last consumer, unless there are others of ours."""
        method = self.queues.get(queue)
        if method is not None and method.auto_delete and not others:
            self.deleted_queue(queue)

    def _drop_bindings(self, kind: type[Binding], destination: str) -> None:
        for key in [key for key in self.bindings if key[0] is kind and key[1] == destination]:
            del self.bindings[key]

    # Doing it again

    async def restore(self, ask: Ask) -> None:
        """Declare and bind everything again.

        Raises:
            TriomqError: The broker refuses something; nothing is forgotten.
        """
        for exchange in list(self.exchanges.values()):
            await ask(exchange, ExchangeDeclareOk)
        for name, queue in list(self.queues.items()):
            reply = await ask(queue, QueueDeclareOk)
            assert isinstance(reply, QueueDeclareOk)
            if reply.queue != name:
                self._rename(name, reply.queue)
        for binding in list(self.bindings.values()):
            await ask(binding, QueueBindOk if isinstance(binding, QueueBind) else ExchangeBindOk)

    def _rename(self, old: str, new: str) -> None:
        self._renamed = {first: new if last == old else last for first, last in self._renamed.items()} | {old: new}
        self.queues = {new if name == old else name: method for name, method in self.queues.items()}
        moved = [
            msgspec.structs.replace(binding, queue=new)
            if isinstance(binding, QueueBind) and binding.queue == old
            else binding
            for binding in self.bindings.values()
        ]
        self.bindings = {_key(binding): binding for binding in moved}


def _key(method: Binding | QueueUnbind | ExchangeUnbind) -> _Key:
    arguments = encode_table(method.arguments)
    if isinstance(method, QueueBind | QueueUnbind):
        return QueueBind, method.queue, method.exchange, method.routing_key, arguments
    return ExchangeBind, method.destination, method.source, method.routing_key, arguments
