"""``triomq check``: what a configuration does, or what is wrong with it."""

from pathlib import Path
from typing import Annotated

import typer

from triomq.app.cli.output import fail
from triomq.app.config import Config, load_config
from triomq.app.policies import PolicyConfig
from triomq.errors import ConfigError
from triomq.tracelog import Trace


def check(
    config: Annotated[
        Path | None, typer.Argument(help="A configuration in TOML; the environment is read as well.")
    ] = None,
) -> None:
    """Print what `serve` would do with a configuration and end with 0; or print all that is wrong, and end with 1.

    What definitions of another broker say that means nothing here is a warning on standard error.
    """
    try:
        loaded = load_config(config)
    except ConfigError as error:
        fail(str(error))
    for word, value in _summary(loaded):
        typer.echo(f"{word:<9}{value}")
    _warn(loaded)


def _warn(config: Config) -> None:
    """Print what of the definitions is passed over: it keeps no broker from starting, but holds nothing."""
    if not config.definitions:
        return
    _, added = config.read_definitions()
    for trouble in added.troubles:
        typer.echo(f"warning: {config.definitions}: {trouble}", err=True)
    if added.troubles:
        typer.echo(f"{len(added.troubles)} words of the definitions are passed over", err=True)


def _summary(config: Config) -> list[tuple[str, str]]:
    """Return a line for each part of the configuration; of users the names alone."""
    lines = [("listens", endpoint.describe()) for endpoint in config.endpoints] or [("listens", "nowhere")]
    users = ", ".join(sorted(config.all_users() or ())) or "guest, with the default password"
    return [
        *lines,
        ("users", users),
        ("domains", ", ".join(config.domains)),
        *(("policy", _rule(policy)) for policy in config.policies),
        ("data", config.data_dir or "none: everything is in memory only"),
        *([("trace", _traced(config.trace))] if config.trace.directory else []),
        ("log", f"{config.log.level}, {config.log.format}"),
        ("drain", f"{config.drain:g} s"),
    ]


def _traced(trace: Trace) -> str:
    rates = ", ".join([*(f"{rate:g} of {pattern!r}" for pattern, rate in trace.queues.items()), f"{trace.rate:g}"])
    return f"{trace.directory}, {rates} of all messages"


def _rule(policy: PolicyConfig) -> str:
    where = f", in {policy.domain}" if policy.domain else ""
    return f"{policy.name}, for {policy.apply_to} like {policy.pattern!r}{where}"
