"""Options of the format ``triomq``, as Spark hands them over: texts whose names have lost their capitals.

    .option("startingOffsets", "earliest") ─▶ {"startingoffsets": "earliest"} ─▶ read_options ─▶ SparkSourceOptions(…)

A Struct is the table of what there is: its fields are the options, in Python's spelling, with their types, bounds and
defaults; its docstring is what the reference shows. Spark takes any name without a word, and a name that is
mistyped has no symptom but wrong results; so a name that is not in the table is an error, which says what is meant: by
the table of other sources' names (``foreign_options``) or, for one that is all but ours, by its letters.

Values are taken as Spark's source for Kafka takes them: blanks around do not count, nor do capitals of words. Texts of
errors are for who writes SQL: they know numbers, true and false, and no types of Python.

No text has a secret in it (``shown``). Spark hides options in its plans by their names alone, so one that is not called
``url`` or ``password`` is refused, before there is a plan, where a password stands in it.
"""

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec

from triomq.errors import ConfigError
from triomq.pipeline.foreign_options import find_foreign
from triomq.shown import names_secret, shown, shown_address

T = TypeVar("T", bound="ConnectionOptions")

Count = Annotated[int, msgspec.Meta(ge=1, description="a whole number from 1 on")]
"""Of records or partitions: none of them would never come to an end."""

Bytes = Annotated[int, msgspec.Meta(ge=1, description="bytes as a whole number, without a unit: 33554432 is 32 MiB")]

Milliseconds = Annotated[int, msgspec.Meta(ge=0, description="milliseconds as a whole number, without a unit")]

Moment = Annotated[
    int,
    msgspec.Meta(
        ge=0,
        description="milliseconds since 1970 as a whole number, 1767225600000 for 2026-01-01 00:00 UTC, which SQL has "
        "as unix_millis(timestamp)",
    ),
]

Times = Annotated[int, msgspec.Meta(ge=0, description="a whole number from 0 on")]

Seconds = Annotated[float, msgspec.Meta(gt=0, description="seconds as a number above 0")]

_VERBATIM: Final = frozenset({"user", "password", "password_file", "domain", "tls_ca", "exchange", "routing_key"})
"""Options in which blanks at the ends count."""

_BIGGEST: Final = 2**63 - 1
"""The largest number that Spark and the broker know."""

_NEAR, _NEAR_IF_SHORT, _SHORT = 0.85, 0.75, 8
"""How alike two names are of which one is a misspelling of the other, and below which length less will do."""

_OPPOSITES: Final = (("min", "max"), ("starting", "ending"))
"""Beginnings of names that are never misspellings of each other."""

_ADDRESS: Final = re.compile(r"(?:\[[\w:.%]+\]|[^\s:/@?#,;\[\]]+)(?::(\d{1,5}))?")


def option_name(field: str) -> str:
    """Return what a field is called in ``option(…)``: ``startingOffsets``, ``tls.ca``."""
    if field == "tls_ca":
        return "tls.ca"
    return re.sub("_([a-z])", lambda found: found[1].upper(), field)


class ConnectionOptions(msgspec.Struct, frozen=True, kw_only=True, rename=option_name):
    """What sources and sinks have in common: where the broker is, as whom to come, and how long to try.

    Args:
        url: Where and as whom in one: ``tap://user:password@host:port/domain``, ``taps://`` for TLS. Spark hides it in
            its plans.
        address: Where, in place of ``url``: ``host:port``, or several of them with commas between, which are tried in
            turn.
        user: Who logs in, with ``address``.
        password: With what; of ``guest`` it is ``guest``. Spark hides it in its plans.
        password_file: A file with the password in its first line, in place of ``password``. Each process that connects
            reads it, so it has to be on every machine, and the password is in no task.
        domain: Where to work, with ``address``; empty is where the broker's endpoint works.
        tls: Whether to speak TLS, with ``address``.
        tls_ca: A file with the certificates to trust over TLS, on every machine too; empty trusts whom the system
            trusts.
        connect_timeout: Seconds that the broker may take to let us in, and for any one answer; without it 10, or what
            ``url`` says.
        retries: How often to try again before a broker that does not answer is an error.
        retry_backoff_ms: Milliseconds to wait before the first of these; each wait is twice the one before, up to five
            seconds. With the defaults a broker may take half a minute to come back.
    """

    url: str = ""
    address: str = ""
    user: str = "guest"
    password: str = ""
    password_file: str = ""
    domain: str = ""
    tls: bool = False
    tls_ca: str = ""
    connect_timeout: Seconds | None = None
    retries: Times = 10
    retry_backoff_ms: Milliseconds = 200

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        told = {name: value for name, value in msgspec.structs.asdict(self).items() if not _is_secret(name)}
        return f"{type(self).__name__}({', '.join(f'{name}={shown(value)}' for name, value in told.items())})"

    def __post_init__(self) -> None:
        """Refuse two answers to one question, and none."""
        if bool(self.url) == bool(self.address):
            raise ConfigError(
                f"{'both' if self.url else 'neither'} of the options url and address; say where the broker is by one: "
                "url is tap://user:password@host:47280, address is host:47280 with user and password beside it"
            )
        if self.url:
            defaults = {field.name: field.default for field in msgspec.structs.fields(ConnectionOptions)}
            for name in ("user", "password", "password_file", "domain", "tls"):
                if getattr(self, name) != defaults[name]:
                    raise ConfigError(
                        f"the options url and {option_name(name)}; a url has that in itself, tap://user:password@host/"
                        "domain, or taps:// for TLS; use address in its place to have it beside"
                    )
        if self.password and self.password_file:
            raise ConfigError("the options password and passwordFile; the password stands in one of them")
        if self.user != "guest" and not (self.password or self.password_file):
            raise ConfigError("the option user without a password; set password or passwordFile")
        for address in self.addresses():
            _check_address(address)

    def addresses(self) -> list[str]:
        """Return each place of ``address``; none if there is a URL."""
        return [address.strip() for address in self.address.split(",")] if self.address else []


def _check_address(address: str) -> None:
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[1] or 0) > 65535:
        hint = "a URL stands in the option url" if "://" in address else "who logs in stands in user and password"
        raise ConfigError(
            f"option address has {shown_address(address)}; it is host:port, or several with commas between: "
            f"h1:47280,h2:47280; {hint}"
        )


def read_options(kind: type[T], given: Mapping[str, str], *, besides: Collection[str] = ()) -> T:
    """Read the options that Spark hands over.

    Args:
        kind: What they are.
        given: By name, in whatever case.
        besides: Names that are Spark's own, and passed over.

    Raises:
        ConfigError: A name is not known, a value is not allowed, or some do not fit together.
    """
    fields = {field.encode_name.lower(): field for field in msgspec.structs.fields(kind)}
    passed_over = {name.lower() for name in besides}
    values: dict[str, Any] = {}
    for name, text in given.items():
        field = fields.get(name.lower())
        if field is not None:
            values[field.name] = _value(field, text if field.name in _VERBATIM else text.strip())
        elif name.lower() not in passed_over:
            raise ConfigError(_unknown(name, {field.encode_name for field in fields.values()}))
    return kind(**values)


def _value(field: msgspec.structs.FieldInfo, text: str) -> object:
    """Read a value as the type of its field wants it."""
    kind = _without_none(field.type)
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(plain) is Literal:
        return _word(field, text, get_args(plain))
    try:
        return msgspec.convert(_READERS.get(plain, str)(text), kind)
    except (ValueError, msgspec.ValidationError):
        raise ConfigError(f"option {field.encode_name} is {_told(field, text)}; it is {_wanted(kind)}") from None


def _word(field: msgspec.structs.FieldInfo, text: str, words: tuple[str, ...]) -> str:
    if text.lower() not in words:
        raise ConfigError(f"option {field.encode_name} is {_told(field, text)}; it is {' or '.join(words)}")
    return text.lower()


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "1", "false", "0"):
        raise ValueError(text)
    return text.lower() in ("true", "1")


def _whole_number(text: str) -> int:
    # As Java reads a long: int() would take 1_000, and msgspec 1e3.
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text) is None or not -_BIGGEST <= int(text) <= _BIGGEST:
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if "_" in text or not isfinite(float(text)):
        raise ValueError(text)
    return float(text)


_READERS: Final[Mapping[object, Callable[[str], object]]] = {bool: _boolean, int: _whole_number, float: _number}


def _without_none(kind: object) -> object:
    members = [member for member in get_args(kind) if member is not type(None)]
    return members[0] if type(None) in get_args(kind) else kind


def _wanted(kind: object) -> str:
    """Return what an option must be, in words."""
    if kind is bool:
        return "true or false"
    meta = [each for each in get_args(kind)[1:] if isinstance(each, msgspec.Meta)] if get_args(kind) else []
    return next((each.description for each in meta if each.description), "a text")


def _told(field: msgspec.structs.FieldInfo, text: str) -> str:
    return "not shown" if _is_secret(field.name) else shown(text)


def _is_secret(name: str) -> bool:
    """Return whether nothing shows an option's value; these are hidden in Spark's plans too."""
    return name == "url" or names_secret(name)


def _unknown(name: str, known: set[str]) -> str:
    """Return the text for a name that is in no table."""
    text = f"option {shown(name)} is not known"
    if foreign := find_foreign(name, known):
        return f"{text}; {foreign}"
    by_lower = {each.lower(): each for each in known if not _is_opposite(name.lower(), each.lower())}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=_NEAR_IF_SHORT if len(name) < _SHORT else _NEAR)
    meant = f"did you mean {by_lower[near[0]]}? There are" if near else "there are"
    return f"{text}; {meant} {', '.join(sorted(known))}"


def _is_opposite(name: str, other: str) -> bool:
    return any(name.startswith(one) and other.startswith(two) for pair in _OPPOSITES for one, two in (pair, pair[::-1]))
