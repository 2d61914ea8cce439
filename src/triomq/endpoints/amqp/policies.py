"""Policies in RabbitMQ's words, to the core's and back: ``message-ttl`` in milliseconds, ``dead-letter-exchange``."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import cast

import msgspec

from triomq.core import AppliesTo, Overflow, Policy, PolicyOptions
from triomq.endpoints.declaring import LARGEST_SEGMENT, read_age, write_age
from triomq.errors import ConfigError, PreconditionFailed

APPLY_TO = {
    "queues": AppliesTo.QUEUES,
    "classic_queues": AppliesTo.CLASSIC_QUEUES,
    "quorum_queues": AppliesTo.QUORUM_QUEUES,
    "streams": AppliesTo.STREAMS,
    "exchanges": AppliesTo.SINKS,
    "all": AppliesTo.ALL,
}
"""What a policy may apply to, as RabbitMQ calls it."""

_INT64_MAX = (1 << 63) - 1

_LONGEST_TIME = 10 * 365 * 24 * 60 * 60 * 1000
"""Milliseconds that a time may be at most, as for arguments of queues: ten years."""


_NO_LIMIT = object()
"""What a setting reads that sets nothing."""


class _Setting(msgspec.Struct, frozen=True):
    """One setting of a policy.

    Args:
        option: The core's name for it.
        expected: What it may be, for texts.
        read: Gives the core's value; None if it may not be that.
        write: Gives it back.
    """

    option: str
    expected: str
    read: Callable[[object], object | None]
    write: Callable[[object], object]


def _number(option: str, least: int, most: int, *, milliseconds: bool = False) -> _Setting:
    def read(value: object) -> object | None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            return None
        return value / 1000 if milliseconds else value

    def write(value: object) -> object:
        return round(cast("float", value) * 1000) if milliseconds else value

    unit = " of milliseconds" if milliseconds else ""
    return _Setting(option, f"a number{unit} from {least} to {most}", read, write)


def _name(option: str) -> _Setting:
    return _Setting(option, "a text", lambda value: value if isinstance(value, str) else None, lambda value: value)


def _read_delivery_limit(value: object) -> object | None:
    if isinstance(value, bool) or not isinstance(value, int) or value > _INT64_MAX:
        return None
    return value if value >= 0 else _NO_LIMIT


_OVERFLOWS = {found.value: found for found in Overflow if found is not Overflow.WAIT}

_SETTINGS = {
    "alternate-exchange": _name("alternate"),
    "dead-letter-exchange": _name("dead_letter_sink"),
    "dead-letter-routing-key": _name("dead_letter_key"),
    "consumer-timeout": _number("consumer_timeout", 0, _LONGEST_TIME, milliseconds=True),
    "delivery-limit": _Setting(
        "delivery_limit",
        "a number; below 0 it is no limit",
        _read_delivery_limit,
        lambda value: value,
    ),
    "expires": _number("expires", 1, _LONGEST_TIME, milliseconds=True),
    "max-age": _Setting(
        "max_age",
        "a number and a unit of Y, M, D, h, m, s, such as '7D'",
        lambda value: read_age(value) if isinstance(value, str) else None,
        lambda value: write_age(cast("float", value)),
    ),
    "max-length": _number("max_length", 0, _INT64_MAX),
    "max-length-bytes": _number("max_bytes", 0, _INT64_MAX),
    "message-ttl": _number("message_ttl", 0, _LONGEST_TIME, milliseconds=True),
    "overflow": _Setting(
        "overflow",
        f"one of {', '.join(map(repr, _OVERFLOWS))}",
        lambda value: _OVERFLOWS.get(value) if isinstance(value, str) else None,
        lambda value: cast("Overflow", value).value,
    ),
    "stream-max-segment-size-bytes": _number("segment_bytes", 1, LARGEST_SEGMENT),
}

IGNORED = frozenset(
    (
        "consumer-disconnected-timeout",
        "dead-letter-strategy",
        "delayed-retry-max",
        "delayed-retry-min",
        "delayed-retry-type",
        "federation-upstream",
        "federation-upstream-pattern",
        "federation-upstream-set",
        "ha-mode",
        "ha-params",
        "ha-promote-on-failure",
        "ha-promote-on-shutdown",
        "ha-sync-batch-size",
        "ha-sync-mode",
        "initial-cluster-size",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "member-placement-tag",
        "queue-leader-locator",
        "queue-master-locator",
        "queue-mode",
        "queue-version",
        "routing-key",
        "shards-per-node",
        "stream-filter-size-bytes",
        "target-group-size",
    )
)
"""Settings that RabbitMQ or one of its plug-ins knows, about nodes and disks; policies from there may have them."""


def read_policy(
    name: str,
    pattern: str,
    definition: Mapping[str, object],
    *,
    apply_to: str = "all",
    priority: int = 0,
    operator: bool = False,
) -> Policy:
    """Read a policy.

    Args:
        name: Its name.
        pattern: A regular expression of names.
        definition: Its settings.
        apply_to: One of ``APPLY_TO``.
        priority: The higher one holds.
        operator: Whether it is the operator's.

    Raises:
        ConfigError: Something is wrong; the text begins with where, as a path inside the policy.
    """
    if apply_to not in APPLY_TO:
        raise ConfigError(f"apply_to: found {apply_to!r}, allowed are {', '.join(map(repr, APPLY_TO))}")
    if not definition:
        raise ConfigError(f"definition: found nothing; set one of {', '.join(_SETTINGS)}")
    if operator and apply_to == "exchanges":
        raise ConfigError("apply_to: found 'exchanges', but a policy of the operator is about queues alone")
    settings = {found.option: value for found, value in _read(definition) if value is not _NO_LIMIT}
    try:
        return Policy(name, pattern, msgspec.convert(settings, PolicyOptions), APPLY_TO[apply_to], priority, operator)
    except PreconditionFailed as error:
        raise ConfigError(f"pattern: {error}") from None


def _read(definition: Mapping[str, object]) -> list[tuple[_Setting, object]]:
    found = []
    for key, value in definition.items():
        setting = _SETTINGS.get(key)
        if setting is not None:
            read = setting.read(value)
            if read is None:
                raise ConfigError(f"definition.{key}: found {value!r}, expected {setting.expected}")
            found.append((setting, read))
        elif key not in IGNORED:
            raise ConfigError(f"definition.{key} is no setting of policies; {_advice(key)}")
    return found


def split_definition(definition: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Return what of another broker's policy can be read here, and a line about each setting that holds nothing."""
    kept: dict[str, object] = {}
    troubles = []
    for key, value in definition.items():
        setting = _SETTINGS.get(key)
        if setting is None:
            troubles.append(f"{key} {'has no effect here' if key in IGNORED else 'is not known here'}")
        elif setting.read(value) is None:
            troubles.append(f"{key} is {value!r}, expected {setting.expected}")
        else:
            kept[key] = value
    return kept or {_NOTHING: True}, troubles


_NOTHING = "queue-mode"
"""A setting without effect. A policy that has nothing else keeps others from applying, as it does in RabbitMQ."""


def _advice(key: str) -> str:
    if key in ("max-priority", "single-active-consumer", "queue-type"):
        return f"declare queues with x-{key} instead, for it cannot change later"
    close = get_close_matches(key.removeprefix("x-").replace("_", "-"), _SETTINGS, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(_SETTINGS)}"


def policy_definition(options: PolicyOptions) -> dict[str, object]:
    """Return a policy's settings in RabbitMQ's words."""
    values = ((key, setting, getattr(options, setting.option)) for key, setting in _SETTINGS.items())
    return {key: setting.write(value) for key, setting, value in values if value is not None}
