"""``triomq user``: edit the file of users that ``users_file`` of a configuration names.

Passwords come from standard input, or are asked for; they are never arguments, which all users of a machine can see.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from triomq.app.cli.output import fail, printable
from triomq.app.users import User
from triomq.app.users_file import editing, read_users
from triomq.errors import ConfigError
from triomq.security import (
    ADMINISTRATOR,
    ALL,
    ANY_DOMAIN,
    ITERATIONS,
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    SCRAM_HASHES,
    UNLIMITED,
    Permission,
    UserLimits,
    make_verifier,
)
from triomq.transports import make_curve_keys, write_curve_keys

user = typer.Typer(
    help="Edit a file of users; a broker that is configured with it reads it at its start and at SIGHUP.",
    no_args_is_help=True,
)

_File = Annotated[Path, typer.Option("--file", help="The file of users.", envvar="TRIOMQ_USERS_FILE")]
_Name = Annotated[str, typer.Argument(help="The user's name.")]
_Domain = Annotated[str, typer.Option(help="The domain of these permissions; * is each without an entry of its own.")]
_Pattern = Annotated[str | None, typer.Option(help="Regular expression of names; empty matches none.")]
_Iterations = Annotated[
    int, typer.Option(help="Rounds of PBKDF2.", min=LEAST_ITERATIONS, max=MOST_ITERATIONS, show_default=True)
]


def _read_limit(text: str | None) -> str | None:
    """Check a limit, which is a number or a word."""
    if text is not None and text != UNLIMITED and not text.isdecimal():
        raise typer.BadParameter(f"found {text!r}; a limit is a number, or {UNLIMITED}")
    return text


_Limit = Annotated[
    str | None,
    typer.Option(help="The most at once, a number or unlimited.", callback=_read_limit, metavar="NUMBER|unlimited"),
]

_HERE = Path("users.json")


@user.command()
def add(
    name: _Name,
    file: _File = _HERE,
    administrator: Annotated[
        bool, typer.Option("--administrator", help="Allow everything; the first user may do so anyway.")
    ] = False,
    domain: _Domain = ANY_DOMAIN,
    configure: _Pattern = None,
    write: _Pattern = None,
    read: _Pattern = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag, such as monitoring; may be repeated.")] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(help="When the user expires, in UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    ] = None,
    max_connections: _Limit = None,
    max_channels: _Limit = None,
    max_queues: _Limit = None,
    max_sinks: _Limit = None,
    max_bindings: _Limit = None,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Log in by a TLS client certificate alone: there is no password.")
    ] = False,
    iterations: _Iterations = ITERATIONS,
) -> None:
    """Add a user; the password comes from standard input, or is asked for. The first user creates the file."""
    if not name:
        raise typer.BadParameter("a user needs a name")
    with _failing(), editing(file, begin=True) as users:
        if name in users:
            fail(f"{file} has a user {name!r} already; `triomq user password` gives it another password")
        first = not users
        most = (max_connections, max_channels, max_queues, max_sinks, max_bindings)
        limits = UserLimits(*map(_limit, most))
        users[name] = User(
            verifiers=() if certificate else _verifiers(_read_password(), iterations),
            certificate=certificate,
            permissions=_permissions(first or administrator, domain, configure, write, read),
            tags=((ADMINISTRATOR,) if first or administrator else ()) + tuple(tag or ()),
            limits=limits,
            expires=None if expires is None else expires.replace(tzinfo=UTC),
        )
        added = users[name]
    typer.echo(f"added {printable(name)} to {file}{': the first user may do everything' if first else ''}")
    if not added.permissions:
        typer.echo(f"it may do nothing yet: triomq user permit {printable(name)} --configure … --write … --read …")
    _remind()


@user.command("list")
def list_users(file: _File = _HERE) -> None:
    """List users with their permissions and expiry; each line is a user in a domain."""
    with _failing():
        users = read_users(file).users
    for name, found in sorted(users.items()):
        for line in _lines(name, found):
            typer.echo(printable(line))


@user.command()
def remove(name: _Name, file: _File = _HERE) -> None:
    """Remove a user; its connections are closed when the broker reads the file again."""
    with _failing(), editing(file) as users:
        _find(users, name, file)
        del users[name]
    typer.echo(f"removed {printable(name)} from {file}")
    _remind()


@user.command()
def password(name: _Name, file: _File = _HERE, iterations: _Iterations = ITERATIONS) -> None:
    """Give a user another password, from standard input or asked for."""
    with _failing(), editing(file) as users:
        found = _find(users, name, file)
        verifiers = _verifiers(_read_password(), iterations)
        users[name] = msgspec.structs.replace(found, verifiers=verifiers, password="", password_file="")
    typer.echo(f"changed the password of {printable(name)} in {file}")
    _remind()


@user.command()
def curve(
    keys: Annotated[Path, typer.Argument(help="The file that gets both keys; it is for its owner alone.")],
    name: Annotated[str | None, typer.Argument(help="The user that owns them; none for keys of a broker.")] = None,
    file: _File = _HERE,
) -> None:
    """Make a pair of keys for ZeroMQ (CURVE), and give a user the public one, by which it logs in."""
    made = make_curve_keys()
    with _failing():
        if name is None:
            write_curve_keys(keys, made)
        else:
            with editing(file) as users:
                found = _find(users, name, file)
                write_curve_keys(keys, made)
                users[name] = msgspec.structs.replace(found, curve_key=made.public)
    typer.echo(f"{keys} has the keys; the public one is {made.public}")
    if name is not None:
        typer.echo(f"{printable(name)} logs in by them")
        _remind()


@user.command()
def permit(
    name: _Name,
    file: _File = _HERE,
    domain: _Domain = ANY_DOMAIN,
    configure: _Pattern = None,
    write: _Pattern = None,
    read: _Pattern = None,
    keep_out: Annotated[bool, typer.Option("--keep-out", help="Remove the domain's entry instead.")] = False,
) -> None:
    """Set what a user may do in a domain; a pattern that is not given stays as it is."""
    if keep_out and (configure, write, read) != (None, None, None):
        raise typer.BadParameter("--keep-out and patterns exclude each other")
    with _failing(), editing(file) as users:
        permissions = dict(_find(users, name, file).permissions or {})
        if keep_out:
            permissions.pop(domain, None)
        else:
            permissions[domain] = _permission(permissions.get(domain, Permission()), configure, write, read)
        users[name] = msgspec.structs.replace(users[name], permissions=permissions)
        changed = users[name]
    for line in _lines(name, changed):
        typer.echo(printable(line))
    _remind()


@contextmanager
def _failing() -> Iterator[None]:
    """End the command with the reason if a file cannot be used."""
    try:
        yield
    except (ConfigError, ValueError) as error:
        fail(str(error))


def _limit(text: str | None) -> int | Literal["unlimited"] | None:
    return int(text) if text is not None and text.isdecimal() else "unlimited" if text else None


def _find(users: dict[str, User], name: str, file: Path) -> User:
    if name not in users:
        fail(f"{file} has no user {name!r}, but {', '.join(map(repr, sorted(users))) or 'none at all'}")
    return users[name]


def _permissions(
    everything: bool, domain: str, configure: str | None, write: str | None, read: str | None
) -> dict[str, Permission]:
    if (configure, write, read) == (None, None, None):
        return {ANY_DOMAIN: ALL} if everything else {}
    return {domain: _permission(Permission(), configure, write, read)}


def _permission(known: Permission, configure: str | None, write: str | None, read: str | None) -> Permission:
    return Permission(
        known.configure if configure is None else configure,
        known.write if write is None else write,
        known.read if read is None else read,
    )


def _read_password() -> str:
    """Ask for a password twice, or take the first line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt("password", hide_input=True, confirmation_prompt=True))
    line = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not line:
        fail("found no password on standard input, whose first line it is; such as: triomq user add ada < secret")
    return line


def _verifiers(password: str, iterations: int) -> tuple[str, ...]:
    """Return one verifier for each mechanism."""
    encoded = password.encode()
    return tuple(str(make_verifier(encoded, mechanism=name, iterations=iterations)) for name in SCRAM_HASHES)


def _lines(name: str, found: User) -> Iterator[str]:
    notes = [*found.tags, *([] if found.expires is None else [f"until {found.expires:%Y-%m-%d %H:%M %Z}"])]
    limits = msgspec.structs.asdict(found.limits)
    notes += [f"{kind} <= {limit}" for kind, limit in limits.items() if isinstance(limit, int)]
    notes += [f"{kind} {UNLIMITED}" for kind, limit in limits.items() if limit == UNLIMITED]
    end = f"  ({', '.join(notes)})" if notes else ""
    permissions = {ANY_DOMAIN: ALL} if found.permissions is None else found.permissions
    for domain, one in sorted(permissions.items()):
        yield f"{name}  {domain}  configure {one.configure!r}  write {one.write!r}  read {one.read!r}{end}"
    if not permissions:
        yield f"{name}  may enter no domain{end}"


def _remind() -> None:
    typer.echo("a running broker reads this file again at SIGHUP", err=True)
