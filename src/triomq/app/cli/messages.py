"""``triomq publish`` and ``triomq get``: messages in and out of a running broker, from the shell.

Exit codes: 0 when done; 1 when the broker cannot be reached or refuses, with a line on standard error; 2 for a wrong
command line.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from triomq.app.cli.connecting import DEFAULT_URL, JsonOption, UrlOption, connected
from triomq.app.cli.output import fail
from triomq.app.cli.properties import read_given
from triomq.app.cli.shown_message import ShownMessage, browsed, print_body, print_json, print_message, taken
from triomq.clients import BlockingConnection
from triomq.errors import TriomqError
from triomq.protocols.control import BrowseQueue

_STDIN = Path("-")


def publish(
    key: Annotated[str, typer.Argument(metavar="QUEUE_OR_KEY", help="The queue; with --exchange, the routing key.")],
    exchange: Annotated[str, typer.Option(help="Publish into this exchange instead of straight to a queue.")] = "",
    body: Annotated[str | None, typer.Option(help="The message; without it and --file, standard input is.")] = None,
    file: Annotated[Path | None, typer.Option(help="Take the message from a file; - is standard input.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Make a message of each line of the input.")] = False,
    count: Annotated[int, typer.Option(help="Publish the message so many times.", min=1)] = 1,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="Set a property, such as content_type or priority."),
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="Set a header; NAME:=JSON for what is no text."),
    ] = None,
    mandatory: Annotated[
        bool, typer.Option("--mandatory/--no-mandatory", help="Whether it is an error if no queue takes it.")
    ] = True,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Publish messages, and wait until the broker has confirmed them.

    Messages are persistent unless --property delivery_mode=1 says otherwise.
    """
    if (body is not None) + (file is not None) > 1 or (lines and (body is not None or count > 1)):
        raise typer.BadParameter("--body, --file, and --lines with --body or --count, exclude each other")
    given = read_given(properties or (), headers or ())
    with connected(url) as connection:
        publisher = connection.publisher
        try:
            for message in _bodies(body, file, count, lines=lines):
                publisher.send(exchange, key, message, given, mandatory=mandatory)
            publisher.wait_confirmed()
        except TriomqError as error:
            with suppress(TriomqError):
                publisher.wait_confirmed()  # so that those in flight are counted too
            fail(f"{error}; {_counted(publisher.confirmed)} published")
        typer.echo(f'{{"published":{publisher.confirmed}}}' if json else f"{_counted(publisher.confirmed)} published")


def _counted(count: int) -> str:
    return "1 message was" if count == 1 else f"{count} messages were"


def _bodies(body: str | None, file: Path | None, count: int, *, lines: bool) -> Iterator[bytes]:
    if body is not None:
        yield from repeat(body.encode("utf-8", "surrogateescape"), count)
        return
    with _input(file) as source:
        if lines:
            yield from (line.removesuffix(b"\n") for line in source)
        else:
            yield from repeat(source.read(), count)


def _input(file: Path | None) -> "nullcontext[BinaryIO] | BinaryIO":
    if file is not None and file != _STDIN:
        try:
            return file.open("rb")
        except OSError as error:
            raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from None
    if sys.stdin.isatty():
        typer.echo("type the message, end it with Ctrl-D", err=True)
    return nullcontext(sys.stdin.buffer)


def get(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")],
    count: Annotated[int, typer.Option(help="Most messages to get; 0 gets all there are.", min=0)] = 1,
    peek: Annotated[bool, typer.Option("--peek", help="Show messages, and leave them in the queue, unmarked.")] = False,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Put the messages back, marked as redelivered; for any AMQP broker.")
    ] = False,
    body_only: Annotated[
        bool, typer.Option("--body-only", help="Print bodies as they are; several have a line end behind each.")
    ] = False,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Get messages from a queue and print them.

    A message is taken off the queue once it has been printed, unless --peek or --requeue is given.
    """
    if (peek and requeue) or (json and body_only):
        raise typer.BadParameter("--peek and --requeue exclude each other, and so do --json and --body-only")
    with connected(url) as connection:
        messages = _peeked(connection, queue) if peek else _taken(connection, queue)
        printed = 0
        for message, settle in islice(messages, count or None):
            printed += 1
            if json:
                print_json(message)
            elif body_only:
                print_body(message, end=b"" if count == 1 else b"\n")
            else:
                print_message(message, printed)
            if not requeue:
                settle()
        if requeue:
            connection.requeue_all()
    if not printed:
        typer.echo(f"queue {queue!r} is empty", err=True)


_Settle = Callable[[], None]


def _peeked(connection: BlockingConnection, queue: str) -> Iterator[tuple[ShownMessage, _Settle]]:
    for record in connection.control_all(BrowseQueue(queue)):
        yield browsed(record), _nothing


def _nothing() -> None:
    """Do nothing: a browsed message needs no settling."""


def _taken(connection: BlockingConnection, queue: str) -> Iterator[tuple[ShownMessage, _Settle]]:
    while (got := connection.get(queue)) is not None:
        yield taken(got), partial(connection.accept, got)
