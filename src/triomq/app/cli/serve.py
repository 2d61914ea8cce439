"""``triomq serve``: a broker on its own."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from triomq.app.broker import Broker
from triomq.app.cli.output import announce, fail
from triomq.app.config import Config, load_config
from triomq.app.listening import Listening
from triomq.app.serve import run
from triomq.errors import ConfigError, NotAllWritten, StoreError, StoreLost
from triomq.transports import name_of
from triomq.version import __version__

_NOT_ON_DISK = 3
"""The exit code if the store is lost, or the end could not write everything: not to be started again unseen."""

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The loopback address for those that stand for all addresses."""


def serve(
    config: Annotated[
        Path | None, typer.Argument(help="A configuration in TOML; without it the defaults hold.")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address to listen on; may be given more than once.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes one that is free.", min=0, max=65535)] = None,
    path: Annotated[str | None, typer.Option(help="Unix socket to listen on instead.")] = None,
    emqp: Annotated[
        int | None,
        typer.Option(help="Listen for eMQP too, for jobs and workers; these look for port 47291.", min=0, max=65535),
    ] = None,
    tap: Annotated[
        int | None,
        typer.Option(
            help="Listen for tap too, which moves streams by ranges; clients look for port 47280.", min=0, max=65535
        ),
    ] = None,
    restms: Annotated[
        int | None,
        typer.Option(help="Listen for RestMS too, messages over HTTP; programs look for port 8080.", min=0, max=65535),
    ] = None,
    mtl: Annotated[
        int | None,
        typer.Option(
            help="Listen for MTL too, control there and data at the next port; programs look for port 5975.",
            min=0,
            max=65535,
        ),
    ] = None,
    micromsg: Annotated[
        int | None,
        typer.Option(help="Listen for MicroMsg2 too; programs look for port 8334.", min=0, max=65535),
    ] = None,
    websocket: Annotated[
        int | None,
        typer.Option(
            help="Listen for AMQP over WebSocket too; which pages may connect is set in a configuration.",
            min=0,
            max=65535,
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory for durable queues and messages; without it all is in memory.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Directory for the trace log, with an event for what happens to each message.")
    ] = None,
    trace_rate: Annotated[
        float | None, typer.Option(help="Which part of the messages is traced, such as 0.01.", min=0, max=1)
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, typer.Option(help="The lowest level that is logged.")
    ] = None,
    log_format: Annotated[
        Literal["text", "json"] | None, typer.Option(help="Lines for people or for programs.")
    ] = None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C, in memory unless --data is given; SIGHUP reads the configuration again.

    Options go before environment variables (TRIOMQ_…), and those before the file.
    """
    given: dict[str, object] = {
        "host": _one_or_all(host), "port": port, "path": path, "emqp": emqp, "tap": tap, "restms": restms, "mtl": mtl,
        "micromsg": micromsg, "websocket": websocket,
        "level": log_level, "format": log_format, "trace_rate": trace_rate,
    }  # fmt: skip
    if data is not None:
        given["data"] = str(data.absolute())  # from here, not from the folder of the configuration
    if trace is not None:
        given["trace"] = str(trace.absolute())
    options = {option: value for option, value in given.items() if value is not None}

    def load() -> Config:
        return load_config(config, options=options)

    try:
        loaded = load()
        login = "NAME:PASSWORD" if loaded.users or loaded.users_file else "guest:guest"
        code = run(loaded, started=lambda broker: _announce(broker, login, loaded.data_dir), reload=load)
    except (NotAllWritten, StoreLost) as error:
        fail(str(error), _NOT_ON_DISK)
    except (ConfigError, StoreError) as error:
        fail(str(error))
    raise typer.Exit(code)


def _one_or_all(hosts: list[str] | None) -> str | list[str] | None:
    """Return a host that is given alone as text, as a file would name it."""
    return hosts[0] if hosts and len(hosts) == 1 else hosts or None


def _announce(broker: Broker, login: str, data_dir: str) -> None:
    """Print where the broker listens and how to connect."""
    by_protocol: dict[str, list[Listening]] = {}
    for listening in broker.listening:
        by_protocol.setdefault(listening.config.spoken, []).append(listening)
    places = "; ".join(f"{protocol} on {_places(group)}" for protocol, group in by_protocol.items())
    announce(f"triomq {__version__} listens for {places or 'nothing: no endpoint is configured'}")
    if by_protocol:
        announce(f"connect with {'; '.join(_url(group, login) for group in by_protocol.values())}")
    in_memory = "messages are in memory and end with this process"
    announce(f"{f'durable queues and messages are in {data_dir}' if data_dir else in_memory}; stop it with Ctrl-C")


def _places(group: list[Listening]) -> str:
    places = [name_of(address) for listening in group for address in listening.addresses]
    others = [f"{what} on {name_of(at)}" for listening in group for what, at in listening.others.items()]
    return f"{', '.join(places)} ({', '.join(others)})" if others else ", ".join(places)


def _url(group: list[Listening], login: str) -> str:
    """Return the URL with which a client on this machine connects to one of several endpoints of a protocol."""
    found = [(listening.config, address) for listening in group for address in listening.addresses]
    ports = [(config, address) for config, address in found if not isinstance(address, str)]
    numbers = [(config, address) for config, address in ports if ":" not in address[0]] or ports
    if not numbers:
        return f"a client that can use a Unix socket, as {login}"
    config, (host, port) = numbers[0]
    return config.client_url(name_of((_EVERYWHERE.get(host, host), port)), login)
