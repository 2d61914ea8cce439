"""Definitions in RabbitMQ's form, to requests to domains and back."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from triomq.actors import Request
from triomq.core import (
    Bind,
    Binding,
    DeclareQueue,
    DeclareSink,
    DeclareStream,
    Directory,
    Overflow,
    Policy,
    QueueOptions,
    QueueState,
    Session,
    SinkKind,
    SinkOptions,
    SinkState,
    Target,
    make_binding,
    partition_name,
)
from triomq.endpoints.amqp.policies import APPLY_TO, policy_definition
from triomq.endpoints.amqp.refusals import ARGUMENTS, AMQPRefusal, on_wire, reply_code_of, stream_arguments
from triomq.endpoints.base.context import BrokerContext, DomainAccess
from triomq.endpoints.declaring import RESERVED, QueueType, queue_options, sink_options
from triomq.errors import PreconditionFailed, Refused
from triomq.protocols.control import (
    DefinedBinding,
    DefinedExchange,
    DefinedPermission,
    DefinedPolicy,
    DefinedQueue,
    DefinedUser,
    DefinedVirtualHost,
    Definitions,
    sayable,
)
from triomq.security import UNLIMITED, UserRecord, permission_in

_PARTITION_OF = "x-partition-of"

_NO_LIMIT = -1
"""What stands for no limit in RabbitMQ's limits of users."""

OPERATOR_POLICY = "operator_policy"
"""The component of those parameters that are policies."""

LIMITS = {"max-connections": "connections", "max-queues": "queues"}
"""Limits of virtual hosts, to ours of domains; any number below 0 is no limit."""

_FORM = "3.10.8"
"""The version of RabbitMQ whose form this is."""

_HASHES = {"RABBITMQ-SHA-256": "rabbit_password_hashing_sha256", "RABBITMQ-SHA-512": "rabbit_password_hashing_sha512"}


class _DefinedStream(NamedTuple):
    """A partitioned stream, which is declared as a whole; its partitions are described one by one, as queues."""

    vhost: str
    name: str
    partitions: list[DefinedQueue]


_Declared = DefinedExchange | _DefinedStream | DefinedQueue | DefinedBinding


# In


async def declare_all(definitions: Definitions, domains: Mapping[str, DomainAccess]) -> list[str]:
    """Declare the exchanges, queues and bindings; those that are there already, and are equal, stay.

    Args:
        definitions: What there is to be.
        domains: The domains by virtual host.

    Returns:
        What could not be, line by line; all else is.
    """
    troubles: list[str] = []
    sessions = {name: Session(domain.ref, domain.directory) for name, domain in domains.items()}
    streams, queues = _apart(definitions.queues)
    everything: tuple[_Declared, ...] = (*definitions.exchanges, *streams, *queues, *definitions.bindings)
    for found in everything:
        session = sessions.get(found.vhost)
        if isinstance(found, DefinedExchange) and found.name.startswith(RESERVED):
            continue  # it is there from the start
        if session is None:
            troubles.append(f"{_named(found)}: there is no virtual host {found.vhost!r}")
            continue
        try:
            await session.domain.ask(_request(found, session))
        except AMQPRefusal as error:
            troubles.append(f"{_named(found)}: {error}")
        except Refused as error:
            kind = "queue" if isinstance(found, DefinedQueue | _DefinedStream) else "exchange"
            troubles.append(f"{_named(found)}: {reply_code_of(error, found.vhost, kind).text}")
    return troubles


def _apart(queues: Sequence[DefinedQueue]) -> tuple[list[_DefinedStream], list[DefinedQueue]]:
    """Return the partitioned streams among queues, and the other queues."""
    streams: dict[tuple[str, str], _DefinedStream] = {}
    alone = []
    for queue in queues:
        name = queue.arguments.get(_PARTITION_OF)
        if isinstance(name, str) and name:
            streams.setdefault((queue.vhost, name), _DefinedStream(queue.vhost, name, [])).partitions.append(queue)
        else:
            alone.append(queue)
    return list(streams.values()), alone


def _named(found: _Declared) -> str:
    match found:
        case DefinedBinding():
            return f"binding of exchange {found.source!r} to {found.destination_type} {found.destination!r}"
        case DefinedExchange():
            return f"exchange {found.name!r}"
        case DefinedQueue():
            return f"queue {found.name!r}"
    return f"stream {found.name!r}"


def _request(found: _Declared, session: Session) -> Request[object]:
    """Return the requests to a domain.

    Raises:
        AMQPRefusal: The exchange is of an unknown type.
        Refused: Its arguments mean nothing, or contradict each other.
    """
    match found:
        case DefinedExchange():
            return DeclareSink(found.name, _sink_options(found), session)
        case DefinedQueue():
            return DeclareQueue(found.name, _queue_options(found), session)
        case _DefinedStream():
            return DeclareStream(found.name, _partition_options(found), session, len(found.partitions))
        case DefinedBinding():
            target = Target.QUEUE if found.destination_type == "queue" else Target.SINK
            binding = make_binding(found.source, target, found.destination, found.routing_key, found.arguments)
            return Bind(binding, session)


def _sink_options(found: DefinedExchange) -> SinkOptions:
    try:
        kind = SinkKind(found.type)
    except ValueError:
        raise AMQPRefusal(503, f"unknown exchange type '{found.type}'") from None
    options = SinkOptions(kind=kind, durable=found.durable, auto_delete=found.auto_delete, internal=found.internal)
    return sink_options(found.name, found.vhost, found.arguments, options)


def _partition_options(found: _DefinedStream) -> QueueOptions:
    first, names = found.partitions[0], sorted(each.name for each in found.partitions)
    if names != sorted(partition_name(found.name, number) for number in range(len(names))):
        raise PreconditionFailed(
            f"its partitions are {', '.join(map(repr, names))}; they have the numbers from 0 on without a gap"
        )
    if any((each.arguments, each.durable) != (first.arguments, first.durable) for each in found.partitions):
        raise PreconditionFailed("its partitions differ in durable or arguments; they are all alike")
    return _queue_options(first)


def _queue_options(found: DefinedQueue) -> QueueOptions:
    arguments, most = dict(found.arguments), None
    if found.type in ("quorum", "stream"):
        arguments.setdefault("x-queue-type", found.type)
    is_stream = arguments.get("x-queue-type") == QueueType.STREAM.value
    if is_stream:
        most = arguments.pop("x-max-length", None)  # which clients may not give, and this program may
    options = queue_options(
        found.name,
        found.vhost,
        arguments,
        durable=found.durable or is_stream,  # clients may not declare a transient one either
        exclusive=False,
        auto_delete=found.auto_delete,
    )
    return replace(options, durable=found.durable, max_length=most if isinstance(most, int) else options.max_length)


# Out


def describe(broker: BrokerContext, virtual_hosts: Mapping[str, str]) -> Iterator[Definitions]:
    """Return what a broker consists of, in parts; queues that belong to a session are left out, and all
    that a peer has made, which tells it again itself.

    Args:
        broker: The broker's.
        virtual_hosts: Which domain each virtual host is.
    """
    yield Definitions(rabbit_version=_FORM)
    directories = {
        name: broker.domains[domain].directory for name, domain in virtual_hosts.items() if domain in broker.domains
    }
    for name, directory in directories.items():
        kind = directory.default_queue_type
        metadata: dict[str, object] | msgspec.UnsetType = {"default_queue_type": kind} if kind else msgspec.UNSET
        yield Definitions(vhosts=[DefinedVirtualHost(name=sayable(name), metadata=metadata)])
    for user in broker.users:
        yield Definitions(users=[_defined_user(user)])
        yield from _permissions(user, virtual_hosts)
    for name, directory in directories.items():
        yield from _describe_domain(name, directory)


def _defined_user(user: UserRecord) -> DefinedUser:
    """Describe a user; one whose password is not stored in RabbitMQ's form has none."""
    kinds = [text.partition("$") for text in user.verifiers]
    kind, _, password_hash = next((parts for parts in kinds if parts[0] in _HASHES), ("RABBITMQ-SHA-256", "", ""))
    limits = {"max-connections": user.limits.connections, "max-channels": user.limits.channels}
    numbers = {name: _NO_LIMIT if limit == UNLIMITED else limit for name, limit in limits.items()}
    return DefinedUser(
        name=sayable(user.name),
        password_hash=password_hash,
        hashing_algorithm=_HASHES[kind],
        tags=list(user.tags),
        limits={name: limit for name, limit in numbers.items() if isinstance(limit, int)},
    )


def _permissions(user: UserRecord, virtual_hosts: Mapping[str, str]) -> Iterator[Definitions]:
    for virtual_host, domain in virtual_hosts.items():
        found = permission_in(user.permissions, domain)
        if found is not None:
            permission = DefinedPermission(
                user=sayable(user.name),
                vhost=sayable(virtual_host),
                configure=found.configure,
                write=found.write,
                read=found.read,
            )
            yield Definitions(permissions=[permission])


def _describe_domain(virtual_host: str, directory: Directory) -> Iterator[Definitions]:
    vhost = sayable(virtual_host)
    for policy in directory.policies.all:
        defined = _defined_policy(policy, vhost)
        yield Definitions(parameters=[_parameter(defined)]) if policy.operator else Definitions(policies=[defined])
    limits = {name: getattr(directory.most, option) for name, option in LIMITS.items()}
    if set_limits := {name: number for name, number in limits.items() if number is not None}:
        yield Definitions(
            parameters=[{"vhost": vhost, "component": "vhost-limits", "name": "limits", "value": set_limits}]
        )
    for sink in list(directory.sinks.values()):
        if not sink.origin and not sink.name.startswith(RESERVED):
            yield Definitions(exchanges=[_defined_exchange(sink, vhost)])
    shared = [queue for queue in directory.queues.values() if queue.owner is None and not queue.origin]
    for queue in shared:
        yield Definitions(queues=[_defined_queue(queue, vhost)])
    names = {queue.name for queue in shared}
    for sink in list(directory.sinks.values()):
        for binding in list(sink.bindings):
            if not sink.origin_of(binding) and (binding.target is Target.SINK or binding.destination in names):
                yield Definitions(bindings=[_defined_binding(binding, vhost)])


def _defined_policy(policy: Policy, vhost: str) -> DefinedPolicy:
    return DefinedPolicy(
        name=policy.name,
        pattern=policy.pattern,
        vhost=vhost,
        definition=policy_definition(policy.options),
        apply_to=next(name for name, kind in APPLY_TO.items() if kind is policy.applies_to),
        priority=policy.priority,
    )


def _parameter(policy: DefinedPolicy) -> dict[str, object]:
    """Describe a policy of the operator, which stands among the parameters."""
    fields = msgspec.to_builtins(policy)
    value = {key: fields[key] for key in ("pattern", "definition", "priority", "apply-to")}
    return {"vhost": policy.vhost, "component": OPERATOR_POLICY, "name": policy.name, "value": value}


def _defined_exchange(sink: SinkState, vhost: str) -> DefinedExchange:
    options = sink.declared
    return DefinedExchange(
        name=sayable(sink.name),
        vhost=vhost,
        type=options.kind.value,
        durable=options.durable,
        auto_delete=options.auto_delete,
        internal=options.internal,
        arguments=_arguments(options, SinkOptions(kind=options.kind)),
    )


def _defined_queue(queue: QueueState, vhost: str) -> DefinedQueue:
    options = queue.declared
    arguments = _arguments(options, QueueOptions())
    if options.stream is not None:
        arguments |= {"x-queue-type": QueueType.STREAM.value, **stream_arguments(options.stream)}
    return DefinedQueue(
        name=sayable(queue.name),
        vhost=vhost,
        durable=options.durable,
        auto_delete=options.auto_delete,
        arguments={**arguments, **dict(options.notes)},
    )


def _defined_binding(binding: Binding, vhost: str) -> DefinedBinding:
    return DefinedBinding(
        source=sayable(binding.source),
        destination=sayable(binding.destination),
        vhost=vhost,
        destination_type="queue" if binding.target is Target.QUEUE else "exchange",
        routing_key=sayable(binding.key),
        arguments=binding.arguments,
    )


def _arguments(options: QueueOptions | SinkOptions, plain: QueueOptions | SinkOptions) -> dict[str, object]:
    """Return the arguments that differ from a plain declare, as clients write them."""
    found = {
        ARGUMENTS[option]: _on_wire(option, getattr(options, option))
        for option in options.__struct_fields__
        if option in ARGUMENTS and getattr(options, option) != getattr(plain, option)
    }
    return {**found, **dict(options.remarks)}


def _on_wire(option: str, value: object) -> object:
    if value is Overflow.WAIT:
        return Overflow.REJECT_PUBLISH.value  # which it is for all clients of endpoints
    return getattr(value, "value", on_wire(option, value))
