"""A message as it is shown: for people, as JSON, or its body alone."""

import sys

import msgspec
import typer

from triomq.app.cli.output import body_lines, printable, size_text
from triomq.app.cli.properties import plain_properties
from triomq.clients import Fetched
from triomq.protocols.control import MessageRecord, sayable


class ShownMessage(msgspec.Struct, frozen=True):
    """What of a message can be shown, whether it was taken or looked at.

    Args:
        id: Its number in the queue; None if it was taken, since AMQP does not say.
        exchange: Where it was published.
        routing_key: How.
        redelivered: Whether somebody has had it before.
        size: Octets of its body.
        properties: What its publisher said of it; None if that was too long to be looked at.
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
        """Whether not all of the body is here."""
        return len(self.body) < self.size


def taken(got: Fetched) -> ShownMessage:
    """Show a message that was taken."""
    exchange, key = sayable(got.exchange), sayable(got.routing_key)
    properties = plain_properties(got.encoded)
    return ShownMessage(None, exchange, key, got.redelivered, len(got.body), properties, got.body)


def browsed(record: MessageRecord) -> ShownMessage:
    """Show a message that was looked at."""
    properties = None if record.properties is None else plain_properties(record.properties)
    return ShownMessage(
        record.id, record.exchange, record.routing_key, record.redelivered, record.size, properties, record.body
    )


def print_json(message: ShownMessage) -> None:
    """Print one object: ``body`` holds text, ``body_base64`` whatever is no UTF-8."""
    said = msgspec.structs.asdict(message)
    body = said.pop("body")
    try:
        said["body"] = body.decode()
    except UnicodeDecodeError:
        said["body_base64"] = body
    if message.id is None:
        del said["id"]
    if message.is_cut:
        said["body_cut"] = True
    typer.echo(msgspec.json.encode(said))


def print_body(message: ShownMessage, *, end: bytes) -> None:
    """Print the octets of the body as they are."""
    sys.stdout.buffer.write(message.body + end)
    sys.stdout.buffer.flush()


def print_message(message: ShownMessage, number: int) -> None:
    """Print a message for people: where it was published, what was said of it, and its body."""
    where = f"exchange {printable(message.exchange)}" if message.exchange else "default exchange"
    again = ", redelivered" if message.redelivered else ""
    title = f"[{number if message.id is None else message.id}] {where}, key {printable(message.routing_key)}"
    typer.secho(f"{title}, {size_text(message.size)}{again}", bold=True)
    for name, value in _said(message):
        typer.secho(f"    {printable(name)}: {printable(str(value))}", dim=True)
    typer.echo("\n".join(body_lines(message.body)))
    if message.is_cut:
        typer.secho(f"    … {size_text(len(message.body))} of {size_text(message.size)}; get shows all", dim=True)


def _said(message: ShownMessage) -> list[tuple[str, object]]:
    if message.properties is None:
        return [("properties", "too long to be looked at; get shows them")]
    headers = message.properties.get("headers")
    said = [(name, value) for name, value in message.properties.items() if name != "headers"]
    return said + ([(f"header {name}", value) for name, value in headers.items()] if isinstance(headers, dict) else [])
