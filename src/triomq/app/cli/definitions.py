"""``triomq definitions``: export and import of exchanges, queues and bindings in the form of RabbitMQ's definitions.

Exchanges, queues and bindings are declared as clients declare them, with the rights of the user. Users, permissions,
virtual hosts and policies belong to the broker's operator, whose configuration can name a file of definitions.

Exit codes: as for ``triomq get``; 1 also if something could not be declared.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, cast

import msgspec
import typer

from triomq.app.cli.connecting import DEFAULT_URL, UrlOption, connected, failing
from triomq.app.cli.output import fail, printable
from triomq.clients import BlockingConnection, open_blocking, parse_amqp_url
from triomq.errors import Disconnected, RemoteProtocolError, TriomqError
from triomq.protocols import FieldValue
from triomq.protocols.amqp import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from triomq.protocols.control import (
    DefinedBinding,
    DefinedExchange,
    DefinedQueue,
    Definitions,
    ExportDefinitions,
    join_definitions,
    read_definitions,
)

definitions = typer.Typer(
    help="Import exchanges, queues and bindings into a running broker, or export them.",
    no_args_is_help=True,
)

_Declared = DefinedExchange | DefinedQueue | DefinedBinding

_OWNER_ALONE = 0o600


@definitions.command("export")
def export_definitions(
    file: Annotated[Path | None, typer.Argument(help="The file to write; standard output without it, or as -.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Export all definitions of a running triomq broker, as RabbitMQ does; the user must be an administrator."""
    with connected(url) as connection:
        found = join_definitions(connection.control_all(ExportDefinitions()))
    content = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
    try:
        if file is None or str(file) == "-":
            sys.stdout.buffer.write(content)
        else:
            # It has hashes of passwords.
            with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ALONE), "wb") as output:
                output.write(content)
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")
    for name in (user.name for user in found.users if not user.password_hash):
        typer.echo(f"user {printable(name)}: its password is left out, since it is not hashed as in RabbitMQ", err=True)


@definitions.command("import")
def import_definitions(
    file: Annotated[Path, typer.Argument(help="Definitions, as rabbitmqctl export_definitions writes them; - reads.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Declare exchanges, queues and bindings in a running broker, each in its virtual host."""
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        found, unread = read_definitions(content)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}")
    except RemoteProtocolError as error:
        fail(f"{file}: {error}")
    everything: tuple[_Declared, ...] = (*found.exchanges, *found.queues, *found.bindings)
    wanted = [item for item in everything if not _is_standard(item)]
    troubles = unread[:]
    with failing():
        for virtual_host in dict.fromkeys(item.vhost for item in wanted):
            here = [item for item in wanted if item.vhost == virtual_host]
            troubles += _declare(url, virtual_host, here)
    typer.echo(f"{len(wanted) - len(troubles) + len(unread)} of {len(wanted)} exchanges, queues and bindings are there")
    _print_ignored(found)
    if troubles:
        fail("\n".join(troubles))


def _is_standard(item: _Declared) -> bool:
    """Return whether every broker has it."""
    if isinstance(item, DefinedBinding):
        return not item.source
    return isinstance(item, DefinedExchange) and (not item.name or item.name.startswith("amq."))


def _declare(url: str, virtual_host: str, items: Sequence[_Declared]) -> list[str]:
    """Declare the items of a virtual host, and return the errors."""
    place = msgspec.structs.replace(parse_amqp_url(url), virtual_host=virtual_host)
    troubles: list[str] = []
    connection: BlockingConnection | None = None
    try:
        for item in items:
            if connection is None:
                connection = open_blocking(place)
            try:
                connection.call(*_method(item))
            except TriomqError as error:
                troubles.append(f"{_named(item)}: {error}")
                if isinstance(error, Disconnected | RemoteProtocolError):
                    connection.close()  # some refusals end the connection
                    connection = None
    finally:
        if connection is not None:
            connection.close()
    return troubles


def _method(item: _Declared) -> tuple[Method, type[Method]]:
    """Return the method that declares an item, and the type of the reply."""
    arguments = cast("dict[str, FieldValue]", item.arguments)
    match item:
        case DefinedExchange():
            declare = ExchangeDeclare(
                item.name,
                item.type,
                durable=item.durable,
                auto_delete=item.auto_delete,
                internal=item.internal,
                arguments=arguments,
            )
            return declare, ExchangeDeclareOk
        case DefinedQueue():
            queue = QueueDeclare(item.name, durable=item.durable, auto_delete=item.auto_delete, arguments=arguments)
            return queue, QueueDeclareOk
        case DefinedBinding(destination_type="queue"):
            return QueueBind(item.destination, item.source, item.routing_key, arguments=arguments), QueueBindOk
        case DefinedBinding():
            return ExchangeBind(item.destination, item.source, item.routing_key, arguments=arguments), ExchangeBindOk


def _named(item: _Declared) -> str:
    if isinstance(item, DefinedBinding):
        return f"binding of exchange {item.source!r} to {item.destination_type} {item.destination!r}"
    return f"{'queue' if isinstance(item, DefinedQueue) else 'exchange'} {item.name!r}"


def _print_ignored(found: Definitions) -> None:
    kinds: Iterable[tuple[str, int]] = (
        ("users", len(found.users)),
        ("permissions", len(found.permissions)),
        ("policies", len(found.policies)),
    )
    left = [f"{count} {kind}" for kind, count in kinds if count]
    if left:
        typer.echo(
            f"not imported: {', '.join(left)}; name the file as definitions in the broker's configuration, and send it "
            "SIGHUP",
            err=True,
        )
