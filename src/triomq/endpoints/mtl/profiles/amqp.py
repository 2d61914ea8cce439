"""The profile ``amqp``: the same broker as AMQP shows it, exchanges and queues with AMQP's options and rules.

Writers have resources ``exchange/<name>``, readers ``queue/<name>``; ``exchange/`` alone is the default exchange. The
property ``address`` of a content is its routing key. What is declared exclusive lives as long as the session, or as the
last of its leases.
"""

from base64 import b64encode
from collections.abc import Iterable
from decimal import Decimal
from math import isfinite
from typing import Final

from triomq.core import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    Enlist,
    Forbidden,
    Get,
    NoSuchSink,
    Outcome,
    Purge,
    SinkInternal,
    SinkOptions,
    Target,
    Unbind,
    make_binding,
    settle,
)
from triomq.endpoints.base.domain_work import DomainWork
from triomq.endpoints.declaring import (
    STANDARD_EXCHANGES,
    declared_exchange,
    declared_queue,
    name_for_queue,
    require_deletable,
    require_exchange,
)
from triomq.endpoints.mtl.content import properties_of
from triomq.endpoints.mtl.profile import (
    ContentSource,
    ContentTarget,
    ResourceProfile,
    TooLarge,
    command,
    profile,
)
from triomq.endpoints.mtl.profiles.amqp_arguments import (
    BindQueue,
    ConfirmMessage,
    DeclareAMQPQueue,
    DeclareExchange,
    DeleteAMQPQueue,
    DeleteExchange,
    GetMessage,
    RejectMessage,
    require_fitting,
)
from triomq.endpoints.mtl.profiles.names import ListArguments, page_of, require_key, require_name
from triomq.endpoints.mtl.profiles.queue import NamedQueue, is_shown, source_of
from triomq.errors import LimitExceeded, NotFound
from triomq.protocols import FieldValue, Timestamp, Typed
from triomq.protocols.control import sayable

EXCHANGE: Final = "exchange/"
QUEUE: Final = "queue/"

_LARGEST_BODY: Final = 1024 * 1024
"""Bytes of a body that is sent in an answer: it takes a third more there, and time of its own."""

_CHARGED: Final = 500
"""Bytes that count as a queue push against a turn's budget: to write them in base64 and JSON takes as long."""

_MOST_UNCONFIRMED: Final = 1_000
"""Messages that a session may have got and not confirmed."""


@profile("amqp")
class ExchangesProfile(ResourceProfile):
    """Exchanges to write to, queues to read from, bindings between them."""

    def prepare(self, work: DomainWork) -> None:
        """Declare the exchanges that AMQP has from the start."""
        for name, kind in STANDARD_EXCHANGES.items():
            if name not in work.directory.sinks:
                work.ask_unguarded(work.domain, DeclareSink(name, SinkOptions(kind=kind)))

    @command("Exchange.Declare", DeclareExchange)
    def declare_exchange(self, work: DomainWork, arguments: DeclareExchange) -> dict[str, object]:
        """Declare an exchange, or find that there is one which is the same."""
        name, directory = arguments.name, work.directory
        require_exchange(name)
        require_name(name, "exchange", EXCHANGE)
        if arguments.passive:
            directory.sink(name)
            return {"name": name, "created": False}
        options = declared_exchange(
            directory,
            directory.name,
            name,
            arguments.type,
            require_fitting(arguments.arguments),
            durable=arguments.durable,
            auto_delete=arguments.auto_delete,
            internal=arguments.internal,
        )
        return {"name": name, "created": work.ask(work.domain, DeclareSink(name, options, work.session))}

    @command("Exchange.Delete", DeleteExchange)
    def delete_exchange(self, work: DomainWork, arguments: DeleteExchange) -> dict[str, object]:
        """Delete an exchange with its bindings; nothing if there is none."""
        require_deletable(arguments.name, work.directory.name)
        request = DeleteSink(arguments.name, arguments.if_unused, work.session)
        return {"deleted": work.ask(work.domain, request)}

    @command("Queue.Declare", DeclareAMQPQueue)
    def declare_queue(self, work: DomainWork, arguments: DeclareAMQPQueue) -> dict[str, object]:
        """Declare a queue, or find that there is one which is the same."""
        directory = work.directory
        if arguments.passive:
            queue = directory.queue(arguments.name, work.session)
            queue.use()
            is_new = False
        else:
            if arguments.name:
                require_name(arguments.name, "queue", QUEUE)
            name = name_for_queue(directory, arguments.name)
            is_new = name not in directory.queues
            options = declared_queue(
                directory,
                directory.name,
                name,
                require_fitting(arguments.arguments),
                durable=arguments.durable,
                exclusive=arguments.exclusive,
                auto_delete=arguments.auto_delete,
                is_named_here=not arguments.name,
            )
            queue = work.ask(work.domain, DeclareQueue(name, options, work.session))
        found = work.ask_unguarded(queue.ref, Enlist())
        return {"name": queue.name, "messages": found.ready, "consumers": found.feeds, "created": is_new}

    @command("Queue.Delete", DeleteAMQPQueue)
    def delete_queue(self, work: DomainWork, arguments: DeleteAMQPQueue) -> dict[str, object]:
        """Delete a queue with what is in it; nothing if there is none."""
        request = DeleteQueue(arguments.name, work.session, if_unused=arguments.if_unused, if_empty=arguments.if_empty)
        found = work.ask(work.domain, request)
        return {"deleted": found is not None, "messages": 0 if found is None else found.ready}

    @command("Queue.Purge", NamedQueue)
    def purge(self, work: DomainWork, arguments: NamedQueue) -> dict[str, object]:
        """Delete what is in a queue and no reader has."""
        queue = work.directory.queue(arguments.name, work.session)
        return {"messages": work.ask(queue.ref, Purge())}

    @command("Queue.Bind", BindQueue)
    def bind(self, work: DomainWork, arguments: BindQueue) -> dict[str, object]:
        """Bind a queue to an exchange, or find that it is."""
        return {"created": self._change(work, Bind, arguments)}

    @command("Queue.Unbind", BindQueue)
    def unbind(self, work: DomainWork, arguments: BindQueue) -> dict[str, object]:
        """Undo a binding; nothing if there is none."""
        return {"deleted": self._change(work, Unbind, arguments)}

    def _change(self, work: DomainWork, change: type[Bind | Unbind], arguments: BindQueue) -> bool:
        require_exchange(arguments.exchange)
        require_key(arguments.routing_key, "routing key")
        binding = make_binding(
            arguments.exchange,
            Target.QUEUE,
            arguments.queue,
            arguments.routing_key,
            require_fitting(arguments.arguments),
        )
        return work.ask(work.domain, change(binding, work.session))

    # Messages in answers

    @command("Queue.Get", GetMessage)
    def get(self, work: DomainWork, arguments: GetMessage) -> dict[str, object]:
        """Take the first message of a queue."""
        queue = work.directory.queue(arguments.name, work.session)
        if arguments.confirm and len(work.unsettled) >= _MOST_UNCONFIRMED:
            raise LimitExceeded(f"{_MOST_UNCONFIRMED:,} messages are not confirmed; confirm some first")
        batch = work.ask(queue.ref, Get())
        if batch is None:
            return {"empty": True}
        message = batch.message(0)
        if len(message.body) > _LARGEST_BODY:
            settle(batch, Outcome.RETURN)
            raise TooLarge(
                f"the message has {len(message.body):,} bytes, and {_LARGEST_BODY:,} are sent in an answer; summon "
                f"{QUEUE + arguments.name!r}"
            )
        work.system.turn.charge(len(message.content) // _CHARGED)
        properties = properties_of(message, work.directory.codecs, redelivered=batch.redelivered)
        shown: dict[str, object] = {
            "empty": False,
            "properties": _json_form(properties),
            "body-base64": b64encode(message.body).decode(),
            "messages": queue.ready_count(),
        }
        if arguments.confirm:
            shown["delivery"] = work.unsettled.enter(batch)
        else:
            settle(batch, Outcome.ACCEPT)
            _mark(work)
        return shown

    @command("Queue.Confirm", ConfirmMessage)
    def confirm(self, work: DomainWork, arguments: ConfirmMessage) -> dict[str, object]:
        """Confirm what Queue.Get has returned."""
        return _settled(work, arguments.delivery, Outcome.ACCEPT, multiple=arguments.multiple)

    @command("Queue.Reject", RejectMessage)
    def reject(self, work: DomainWork, arguments: RejectMessage) -> dict[str, object]:
        """Refuse what Queue.Get has returned, or give it back."""
        outcome = Outcome.REQUEUE if arguments.recycle else Outcome.REJECT
        return _settled(work, arguments.delivery, outcome, multiple=arguments.multiple)

    # Resources

    def target(self, work: DomainWork, resource: str) -> ContentTarget:
        """Return the exchange."""
        name = resource.removeprefix(EXCHANGE)
        sink = work.directory.sinks.get(name) if resource.startswith(EXCHANGE) else None
        if sink is None and (name or not resource.startswith(EXCHANGE)):
            raise NoSuchSink(name)
        if sink is not None and sink.declared.internal:
            raise SinkInternal(name)
        if not work.access.may_write(name):
            raise Forbidden("sink", name)
        return ContentTarget(name, by_address=True)

    def require_reader(self, work: DomainWork, resource: str) -> None:
        """See that a client may read a queue."""
        self.source(work, resource)

    def source(self, work: DomainWork, resource: str) -> ContentSource:
        """Return the queue."""
        if not resource.startswith(QUEUE):
            raise NotFound(f"there is no resource {resource!r} to read; those of this profile begin with {QUEUE!r}")
        return source_of(work, resource.removeprefix(QUEUE))

    def resources(self, work: DomainWork, *, reading: bool) -> Iterable[str]:
        """List queues, or exchanges, that the client may use."""
        if reading:
            may, queues = work.access.may_read, work.directory.queues
            names, _ = page_of(work, queues, ListArguments(), lambda name: may(name) and is_shown(work, name))
            return [QUEUE + name for name in names]
        sinks, may = work.directory.sinks, work.access.may_write
        names, _ = page_of(work, sinks, ListArguments(), lambda name: may(name) and not sinks[name].declared.internal)
        return [EXCHANGE + name for name in names]


def _settled(work: DomainWork, delivery: int, outcome: Outcome, *, multiple: bool) -> dict[str, object]:
    before = len(work.unsettled)
    if multiple:
        work.unsettled.settle_up_to(delivery, outcome)
    else:
        work.unsettled.settle_each((delivery,), outcome)
    _mark(work)
    return {"messages": before - len(work.unsettled)}


def _mark(work: DomainWork) -> None:
    """Have the answer wait until what was settled is on disk: what is confirmed does not come again after a crash."""
    if (persistence := work.directory.persistence) is not None:
        persistence.mark_sync_point()


def _json_form(value: FieldValue) -> object:
    """Return a value of a table as JSON has it: bytes as an object with their base64, a point in time as seconds."""
    match value:
        case Typed(_, plain):
            return _json_form(plain)
        case Timestamp(seconds):
            return seconds
        case Decimal():
            return str(value)
        case float() if not isfinite(value):
            return str(value)
        case bytes() | bytearray():
            return {"base64": b64encode(value).decode()}
        case str():
            return sayable(value)
        case list():
            return [_json_form(item) for item in value]
        case dict():
            return {sayable(name): _json_form(item) for name, item in value.items()}
        case _:
            return value
