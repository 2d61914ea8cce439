"""The configuration of a broker on its own: the Structs, and how they are had from a file and the environment.

The same Structs are the interface for programs: ``run(Config(endpoints=(AMQP(port=5673),)))``.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from triomq.app.environment import overlay
from triomq.app.listening import require_loopback
from triomq.app.validation import Origins, build
from triomq.endpoints import AMQP
from triomq.errors import ConfigError

__all__ = ["Config", "Log", "User", "load_config"]

_OTHERS = ("TRIOMQ_URL",)
"""Variables that mean something to other commands, and nothing here."""


_Name = Annotated[str, msgspec.Meta(min_length=1)]


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may log in; with one of the two.

    Args:
        password: The password.
        password_file: A file that holds the password, from the folder of the configuration; a newline at its end
            does not count.
    """

    password: str = ""
    password_file: str = ""

    def __post_init__(self) -> None:
        """Check that there is a password."""
        if not self.password and not self.password_file:
            raise ValueError("a user needs a password that is not empty, or a password_file")
        if self.password and self.password_file:
            raise ValueError("a user has either a password or a password_file, not both")

    def __repr__(self) -> str:
        """Keep the password out of logs."""
        return f"User(password_file={self.password_file!r})" if self.password_file else "User(password=…)"

    def read_password(self, path: str) -> str:
        """Give the password; ``path`` says where in the configuration this is.

        Raises:
            ConfigError: The file cannot be read, or is empty.
        """
        if not self.password_file:
            return self.password
        try:
            found = Path(self.password_file).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{path}.password_file: cannot read {self.password_file}: {error.strerror}; name a file that the "
                "broker's user may read"
            ) from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path}.password_file: {self.password_file} is no text in UTF-8") from None
        password = found.removesuffix("\n").removesuffix("\r")
        if not password:
            raise ConfigError(f"{path}.password_file: {self.password_file} is empty; write the password into it")
        return password


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, and how; the log goes to standard error.

    Args:
        level: The least that is worth a line.
        format: ``text`` for people, ``json`` for programs.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker on its own.

    Args:
        endpoints: What to listen for.
        users: Who may log in, by name; without any it is guest/guest, on loopback addresses alone.
        domains: The namespaces of sinks and queues; virtual hosts lead to them.
        log: What is logged, and how.
        drain: Seconds that clients get to answer the goodbye before their connections are cut.
    """

    endpoints: tuple[AMQP, ...] = (AMQP(),)
    users: Mapping[str, User] = msgspec.field(default_factory=dict)
    domains: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1)] = ("default",)
    log: Log = Log()
    drain: Annotated[float, msgspec.Meta(ge=0)] = 3.0

    def passwords(self) -> dict[str, str] | None:
        """Give name and password of each user, read anew from their files; None if there are no users.

        Raises:
            ConfigError: A file cannot be read, or is empty.
        """
        return {name: user.read_password(f"users.{name}") for name, user in self.users.items()} or None

    def check(self) -> None:
        """Check what no single setting can show.

        Raises:
            ConfigError: An endpoint is open to other machines and there are no users, a virtual host leads to no
                domain, or a password cannot be read.
        """
        if not self.users:
            require_loopback(host for endpoint in self.endpoints for host in endpoint.hosts)
        for number, endpoint in enumerate(self.endpoints):
            for virtual_host, domain in endpoint.virtual_hosts.items():
                if domain not in self.domains:
                    raise ConfigError(
                        f"endpoints[{number}].virtual_hosts: {virtual_host!r} leads to the domain {domain!r}, but "
                        f"domains has {', '.join(map(repr, self.domains))}"
                    )
        self.passwords()


def load_config(
    path: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    options: Mapping[str, object] | None = None,
) -> Config:
    """Read a configuration: options over the environment over the file over what is so by itself.

    Args:
        path: A file in TOML; None for no file.
        environment: Environment variables, of which those with ``TRIOMQ_`` count.
        options: What the command line says: ``host``, ``port`` and ``path`` of the first endpoint, ``level`` and
            ``format`` of the log.

    Raises:
        ConfigError: It is wrong; each line of the text says where, what was found and what is allowed.
    """
    data = {} if path is None else _read(Path(path))
    data.setdefault("endpoints", [{"type": "amqp"}])
    others = overlay(data, Config, environment, leave=_OTHERS) | _set_options(data, options or {})
    origins = Origins("" if path is None else os.fspath(path), others)
    config = build(data, Config, origins)
    if path is not None:
        config = _beside(config, Path(path).parent)
    try:
        config.check()
    except ConfigError as error:
        raise ConfigError(f"{origins.name('')}: {error}") from None
    return config


def _read(path: Path) -> dict[str, object]:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, object])
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name a file in TOML that exists") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text in UTF-8, as TOML must be") from None


def _beside(config: Config, folder: Path) -> Config:
    """Let the files of passwords be those beside the configuration."""
    users = {
        name: User(password_file=str(folder / user.password_file)) if user.password_file else user
        for name, user in config.users.items()
    }
    return msgspec.structs.replace(config, users=users)


def _set_options(data: dict[str, object], options: Mapping[str, object]) -> dict[str, str]:
    """Write what the command line says into data, and tell which option said what, by path."""
    said: dict[str, str] = {}
    for option, value in options.items():
        of_log = option in ("level", "format")
        place = data.setdefault("log", {}) if of_log else _first_endpoint(data)
        if isinstance(place, dict):
            place[option] = value
            if not of_log and option != "path":
                place.pop("path", None)  # a port and a Unix socket are two places
            said[f"log.{option}" if of_log else f"endpoints[0].{option}"] = f"--{'log-' if of_log else ''}{option}"
    return said


def _first_endpoint(data: dict[str, object]) -> object:
    endpoints = data["endpoints"]
    if not isinstance(endpoints, list):
        return None  # wrong, as is about to be said
    if not endpoints:
        endpoints.append({"type": "amqp"})
    return endpoints[0]
