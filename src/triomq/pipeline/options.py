"""Options of the format ``triomq``, as Spark hands them over: texts whose names have lost their capitals.

    .option("startingOffsets", "earliest") ─▶ {"startingoffsets": "earliest"} ─▶ read_options ─▶ SparkSourceOptions(…)

A Struct is the table of what there is: its fields are the options, in Python's spelling, with their types, bounds and
defaults; its docstring is what the reference shows. Spark takes any name without a word, and a name that is
mistyped has no symptom but wrong results; so a name that is not in the table is an error, which names the nearest one.
"""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from triomq.errors import ConfigError

T = TypeVar("T", bound="ConnectionOptions")

Count = Annotated[int, msgspec.Meta(ge=1)]
"""Of records, bytes or partitions: none of them would never come to an end."""

Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
"""Also since 1970."""

_SECRETS: Final = frozenset({"url", "password"})
"""Options whose values no error shows."""

_LONGEST_SHOWN: Final = 60
"""Characters of a wrong value that an error repeats."""


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
    connect_timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    retries: Annotated[int, msgspec.Meta(ge=0)] = 10
    retry_backoff_ms: Milliseconds = 200

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        shown = {name: value for name, value in msgspec.structs.asdict(self).items() if name not in _SECRETS}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

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
            raise ConfigError(f"option user is {self.user!r}, and there is no password; set password or passwordFile")


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
            values[field.name] = _value(field, text)
        elif name.lower() not in passed_over:
            raise ConfigError(_unknown(name, [field.encode_name for field in fields.values()]))
    return kind(**values)


def _value(field: msgspec.structs.FieldInfo, text: str) -> object:
    try:
        return msgspec.convert(text, field.type, strict=False)
    except msgspec.ValidationError as error:
        name, reason = field.encode_name, str(error).replace("`", "")
        shown = "not shown" if field.name in _SECRETS else repr(text[:_LONGEST_SHOWN])
        if choices := _choices(field.type):
            reason = f"allowed are {', '.join(choices)}"
        raise ConfigError(f"option {name} is {shown}: {reason}") from None


def _choices(kind: object) -> tuple[str, ...]:
    return kind.__args__ if getattr(kind, "__origin__", None) is Literal else ()  # type: ignore[attr-defined]  # asked


def _unknown(name: str, known: list[str]) -> str:
    """Return the text for a name that is in no table."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    meant = f"did you mean {by_lower[near[0]]}? There are" if near else "there are"
    return f"option {name!r} is not known; {meant} {', '.join(sorted(known))}"
