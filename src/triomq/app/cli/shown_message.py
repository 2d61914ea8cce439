"""A message as commands print it: for people, as JSON, or its body alone."""

import sys

import msgspec
import typer

from triomq.app.cli.output import body_lines, printable, size_text
from triomq.app.cli.properties import plain_properties
from triomq.clients import Fetched
from triomq.protocols.control import MessageRecord, sayable


class ShownMessage(msgspec.Struct, frozen=True):
    """A message that was taken or browsed.

    Args:
        id: Its number in the queue; None if it was taken, since AMQP does not carry it.
        exchange: The exchange that it was published into.
        routing_key: The routing key that it was published with.
        redelivered: Whether a consumer may have had it before.
        size: Bytes of its body.
        properties: Its properties by name; None if they are too long to be browsed.
        body: Its body, or the beginning of it.
    """

    id: int | None
    exchange: str
    routing_key: str
    redelivered: bool
    size: int
    properties: dict[str, object] | None
    body: bytes

    @property
    def is_cut(self) -> bool:
        """Whether the body is not complete."""
        return len(self.body) < self.size


def taken(got: Fetched) -> ShownMessage:
    """Return a message that was taken."""
    exchange, key = sayable(got.exchange), sayable(got.routing_key)
    properties = plain_properties(got.encoded)
    return ShownMessage(None, exchange, key, got.redelivered, len(got.body), properties, got.body)


def browsed(record: MessageRecord) -> ShownMessage:
    """Return a message that was browsed."""
    properties = None if record.properties is None else plain_properties(record.properties)
    return ShownMessage(
        record.id, record.exchange, record.routing_key, record.redelivered, record.size, properties, record.body
    )


def print_json(message: ShownMessage) -> None:
    """Print one object, with ``body`` if the body is UTF-8, else with ``body_base64``."""
    fields = msgspec.structs.asdict(message)
    body = fields.pop("body")
    try:
        fields["body"] = body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = body
    if message.id is None:
        del fields["id"]
    if message.is_cut:
        fields["body_cut"] = True
    typer.echo(msgspec.json.encode(fields))


def print_body(message: ShownMessage, *, end: bytes) -> None:
    """Print the body as it is."""
    sys.stdout.buffer.write(message.body + end)
    sys.stdout.buffer.flush()


def print_message(message: ShownMessage, number: int) -> None:
    """Print a message for people: where it was published, its properties, and its body."""
    where = f"exchange {printable(message.exchange)}" if message.exchange else "default exchange"
    again = ", redelivered" if message.redelivered else ""
    title = f"[{number if message.id is None else message.id}] {where}, key {printable(message.routing_key)}"
    typer.secho(f"{title}, {size_text(message.size)}{again}", bold=True)
    for name, value in _properties(message):
        typer.secho(f"    {printable(name)}: {printable(str(value))}", dim=True)
    typer.echo("\n".join(body_lines(message.body)))
    if message.is_cut:
        typer.secho(f"    … {size_text(len(message.body))} of {size_text(message.size)}; get shows all", dim=True)


def _properties(message: ShownMessage) -> list[tuple[str, object]]:
    if message.properties is None:
        return [("properties", "too long to be browsed; get shows them")]
    headers = message.properties.get("headers")
    others = [(name, value) for name, value in message.properties.items() if name != "headers"]
    return others + (
        [(f"header {name}", value) for name, value in headers.items()] if isinstance(headers, dict) else []
    )
