"""The configuration of a broker on its own: its Structs, read from a file, the environment and the command line.

The same Structs are the interface for programs: ``run(Config(endpoints=(AMQP(port=5673),)))``.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from triomq.app.definitions import Additions, additions_of, knows_guest, load_definitions
from triomq.app.environment import overlay
from triomq.app.listening import require_loopback
from triomq.app.machine import DEFAULT_WATERMARK
from triomq.app.policies import PolicyConfig, check_policies
from triomq.app.users import User, records_of
from triomq.app.users_file import read_users
from triomq.app.validation import SettingSources, build
from triomq.checked import Checked
from triomq.core import QUEUE_MEMORY, DomainLimits
from triomq.endpoints import DEFAULT_ENDPOINTS, DEFAULT_TYPE, EndpointConfig, Synchronise
from triomq.errors import ConfigError
from triomq.process import PROCESS_VARIABLE, PYTHON_VARIABLE
from triomq.protocols.control import Definitions
from triomq.store import DISK_RESERVE
from triomq.store.hosting import HostKind
from triomq.tracelog import Trace, require_pyarrow

_OTHERS = ("TRIOMQ_URL", "TRIOMQ_BROKER", PYTHON_VARIABLE, PROCESS_VARIABLE)
"""Variables of other commands, and of processes, ignored here."""

_OPTIONS = {
    "level": ("log.level", "--log-level"),
    "format": ("log.format", "--log-format"),
    "data": ("data_dir", "--data"),
    "trace": ("trace.directory", "--trace"),
    "trace_rate": ("trace.rate", "--trace-rate"),
}
"""The path of the setting for each option that is not one of the first endpoint, and how the option is written."""

_Name = Annotated[str, msgspec.Meta(min_length=1)]

_LEAST_QUEUE_MEMORY = 64 * 1024
"""Bytes; with fewer, a queue would read from disk for every few messages. So an 8 that means MiB is an error."""


class Log(Checked, frozen=True, forbid_unknown_fields=True):
    """What is logged, and how; the log goes to standard error.

    Args:
        level: The lowest level that is logged.
        format: ``text`` for people, ``json`` for programs.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Config(Checked, frozen=True, forbid_unknown_fields=True):
    """A broker on its own.

    Args:
        endpoints: What to listen for.
        users: Who may log in, by name; without any it is guest/guest, on loopback addresses alone.
        users_file: A file of further users, from the folder of the configuration; ``triomq user`` writes it.
        domains: The namespaces of sinks and queues; each virtual host is one of them.
        peers: Brokers to which a domain is announced, so that their clients can publish to ours.
        policies: Options for queues and exchanges by their names, whichever client declares them.
        default_queue_types: By domain, the type of queues (``classic``, ``quorum``, ``stream``) whose declare over AMQP
            names none.
        domain_limits: By domain, how many connections and queues there may be at once.
        definitions: A file of definitions as RabbitMQ exports them, from the folder of the configuration: users,
            virtual hosts, policies, exchanges, queues and bindings. The rest of the configuration goes before it.
        log: What is logged, and how.
        drain: Seconds that clients have to finish before their connections are cut.
        memory_high_watermark: What queues may hold before publishers have to wait or are refused: bytes if it is
            above 1, a part of the machine's memory if it is not, 0 for no such mark. Unfinished messages may take an
            eighth of it; and the process itself may have 60 % of the machine's memory.
        data_dir: The directory of the store, from the folder of the configuration, created if it is not there; without
            it everything is in memory alone.
        queue_memory: Bytes of messages that each queue has in memory if there is a store; the others are on disk.
        store_host: Where the store's work is done: in a process of its own; or, where no child process may be started,
            on a thread, which is much slower while the broker is busy.
        disk_reserve: Bytes, beside the size of the store's log, that are to be free on its disk: below it publishers
            are refused as on a full disk, until there is twice as much; 0 for no such reserve.
        trace: What is traced: events of messages, in Parquet files for reports.
    """

    endpoints: tuple[EndpointConfig, ...] = DEFAULT_ENDPOINTS
    users: Mapping[str, User] = msgspec.field(default_factory=dict)
    users_file: str = ""
    domains: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1)] = ("default",)
    peers: tuple[Synchronise, ...] = ()
    policies: tuple[PolicyConfig, ...] = ()
    default_queue_types: Mapping[str, Literal["classic", "quorum", "stream"]] = msgspec.field(default_factory=dict)
    domain_limits: Mapping[str, DomainLimits] = msgspec.field(default_factory=dict)
    definitions: str = ""
    log: Log = Log()
    drain: Annotated[float, msgspec.Meta(ge=0)] = 3.0
    memory_high_watermark: Annotated[float, msgspec.Meta(ge=0)] = DEFAULT_WATERMARK
    data_dir: str = ""
    queue_memory: Annotated[int, msgspec.Meta(ge=_LEAST_QUEUE_MEMORY)] = QUEUE_MEMORY
    store_host: HostKind = "process"
    disk_reserve: Annotated[int, msgspec.Meta(ge=0)] = DISK_RESERVE
    trace: Trace = Trace()

    def completed(self) -> "Config":
        """Return the configuration with the additions of its definitions, which are read anew.

        Raises:
            ConfigError: The definitions cannot be read, or are wrong.
        """
        if not self.definitions:
            return self
        _, added = self.read_definitions()
        own = {(policy.domain, policy.name, policy.operator) for policy in self.policies}
        policies = (
            policy
            for policy in added.policies
            if not own & {(domain, policy.name, policy.operator) for domain in (policy.domain, "")}
        )
        return msgspec.structs.replace(
            self,
            endpoints=tuple(endpoint.with_virtual_hosts(added.domains) for endpoint in self.endpoints),
            users={**added.users, **self.users},
            domains=tuple(dict.fromkeys((*self.domains, *added.domains.values()))),
            policies=(*self.policies, *policies),
            default_queue_types={**added.default_queue_types, **self.default_queue_types},
            domain_limits={**added.domain_limits, **self.domain_limits},
        )

    def read_definitions(self) -> tuple[Definitions, Additions]:
        """Read the file of definitions, which must be configured; return it, and what it adds to the configuration.

        Raises:
            ConfigError: The definitions cannot be read, or are wrong.
        """
        path = Path(self.definitions)
        found, troubles = load_definitions(path)
        virtual_hosts = {host: domain for endpoint in self.endpoints for host, domain in endpoint.virtual_hosts.items()}
        added = additions_of(found, path, self.domains, virtual_hosts)
        return found, msgspec.structs.replace(added, troubles=(*troubles, *added.troubles))

    def all_users(self) -> dict[str, User] | None:
        """Return all users, those of the file read anew; None if there are only the default ones.

        Raises:
            ConfigError: The file cannot be read, or has a user that is configured too.
        """
        if not self.users_file:
            return dict(self.users) or None
        in_file = read_users(Path(self.users_file)).users
        for name in in_file.keys() & self.users.keys():
            raise ConfigError(f"users.{name}: {self.users_file} has a user of that name too; remove one of the two")
        return {**self.users, **in_file}

    def users_secret(self) -> bytes | None:
        """Return the secret of the users' file; None without a file.

        Raises:
            ConfigError: The file cannot be read.
        """
        return read_users(Path(self.users_file)).secret if self.users_file else None

    def check(self) -> None:
        """Check what no setting shows alone.

        Raises:
            ConfigError: An endpoint is open to other machines and there are no users, a virtual host or a peer names no
                domain, a policy or a URL is wrong, a password or a certificate cannot be read, the data directory is
                a file, or what the trace log needs is not installed.
        """
        if os.path.exists(self.data_dir) and not os.path.isdir(self.data_dir):
            raise ConfigError(f"data_dir: {self.data_dir} is a file, not a directory; name another, or move it away")
        if (not self.users and not self.users_file) or knows_guest(self.users):
            require_loopback(host for endpoint in self.endpoints for host in endpoint.hosts)
        if self.trace.directory:
            require_pyarrow()
        self._check_peers()
        for setting in ("default_queue_types", "domain_limits"):
            for domain in getattr(self, setting):
                if domain not in self.domains:
                    raise ConfigError(f"{setting}: found {domain!r}, but domains has {_listed(self.domains)}")
        check_policies(self.policies, self.domains)
        records_of(self.all_users() or {})
        for number, endpoint in enumerate(self.endpoints):
            try:
                endpoint.check(self.domains)
            except ConfigError as error:
                raise ConfigError(f"endpoints[{number}].{error}") from None

    def _check_peers(self) -> None:
        for number, peer in enumerate(self.peers):
            if peer.domain not in self.domains:
                raise ConfigError(
                    f"peers[{number}].domain: found {peer.domain!r}, but domains has {_listed(self.domains)}"
                )
            try:
                peer.make_context()  # which reads the URL as well
            except ConfigError as error:
                raise ConfigError(f"peers[{number}].{error}") from None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def load_config(
    path: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    options: Mapping[str, object] | None = None,
) -> Config:
    """Read a configuration: options go before the environment, that before the file, and that before the defaults.

    Args:
        path: A file in TOML; None for no file.
        environment: Environment variables; those that begin with ``TRIOMQ_`` are read.
        options: Options of the command line: ``host``, ``port`` and ``path`` of the first endpoint, ``level`` and
            ``format`` of the log, ``data``, which is ``data_dir``, ``trace`` and ``trace_rate``, and ``emqp`` and
            ``tap``, the ports of endpoints for these.

    Raises:
        ConfigError: It is wrong; each line of the text has the place, what was found, and what is allowed.
    """
    data = {} if path is None else _read(Path(path))
    data.setdefault("endpoints", [{"type": DEFAULT_TYPE}])
    others = overlay(data, Config, environment, leave=_OTHERS) | _set_options(data, options or {})
    sources = SettingSources("" if path is None else os.fspath(path), others)
    config = build(data, Config, sources)
    if path is not None:
        config = _beside(config, Path(path).parent)
    try:
        config = config.completed()
        config.check()
    except ConfigError as error:
        raise ConfigError(f"{sources.name('')}: {error}") from None
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
    """Resolve the paths of files from the folder of the configuration."""
    users = {
        name: msgspec.structs.replace(user, password_file=str(folder / user.password_file))
        if user.password_file
        else user
        for name, user in config.users.items()
    }
    users_file = str(folder / config.users_file) if config.users_file else ""
    definitions = str(folder / config.definitions) if config.definitions else ""
    data_dir = str(folder / config.data_dir) if config.data_dir else ""
    traces = str(folder / config.trace.directory) if config.trace.directory else ""
    return msgspec.structs.replace(
        config,
        users=users,
        users_file=users_file,
        endpoints=tuple(endpoint.beside(folder) for endpoint in config.endpoints),
        peers=tuple(peer.beside(folder) for peer in config.peers),
        definitions=definitions,
        data_dir=data_dir,
        trace=msgspec.structs.replace(config.trace, directory=traces),
    )


def _set_options(data: dict[str, object], options: Mapping[str, object]) -> dict[str, str]:
    """Write options of the command line into data, and return which option each setting came from, by path."""
    sources: dict[str, str] = {}
    for option, value in options.items():
        if option in _ADDED:
            sources |= _set_port(data, option, value)
            continue
        path, written = _OPTIONS.get(option, (f"endpoints[0].{option}", f"--{option}"))
        place = _place(data, path)
        if isinstance(place, dict):
            place[path.rpartition(".")[2]] = value
            if option in ("host", "port"):
                place.pop("path", None)  # a port and a Unix socket exclude each other
            sources[path] = written
    return sources


_ADDED: Mapping[str, Mapping[str, object]] = {
    **{tag: {"type": tag} for tag in ("emqp", "tap", "restms", "mtl", "micromsg")},
    "websocket": {"type": DEFAULT_TYPE, "websocket": {}},
}
"""The endpoints whose port is an option of the command line, as they are without any other setting."""


def _set_port(data: dict[str, object], option: str, port: object) -> dict[str, str]:
    """Write the port of the first endpoint with the same settings, which is added where there is none."""
    endpoints = data["endpoints"]
    if not isinstance(endpoints, list):
        return {}  # wrong; build raises the error
    added = _ADDED[option]
    found = next((each for each in endpoints if _is_like(each, added)), None)
    if found is None:
        found = {**added}
        endpoints.append(found)
    found["port"] = port
    return {f"endpoints[{endpoints.index(found)}].port": f"--{option}"}


def _is_like(endpoint: object, other: Mapping[str, object]) -> bool:
    """Return whether an endpoint is of the same type as another, and has what is set there."""
    return isinstance(endpoint, dict) and endpoint.get("type") == other["type"] and other.keys() <= endpoint.keys()


def _place(data: dict[str, object], path: str) -> object:
    part = path.rpartition(".")[0]
    return data if not part else _first_endpoint(data) if "[" in part else data.setdefault(part, {})


def _first_endpoint(data: dict[str, object]) -> object:
    endpoints = data["endpoints"]
    if not isinstance(endpoints, list):
        return None  # wrong; build raises the error
    if not endpoints:
        endpoints.append({"type": DEFAULT_TYPE})
    return endpoints[0]
