"""What is said of a message, in AMQP's basic properties, which the clients of four doors take and give."""

from datetime import UTC, datetime
from typing import Any

from doors.door import HEADER, Said
from triomq.clients import BasicProperties
from triomq.protocols import Timestamp

_TEXTS = ["content-type", "content-encoding", "correlation-id", "reply-to", "message-id", "type", "user-id", "app-id"]


def to_basic(said: Said) -> BasicProperties:
    """Write what is said, but for the routing key."""
    found: dict[str, Any] = {name.replace("-", "_"): said[name] for name in _TEXTS if name in said}
    headers = {name.removeprefix(HEADER): said[name] for name in said if name.startswith(HEADER)}
    if "persistent" in said:
        found["delivery_mode"] = 2 if said["persistent"] else 1
    if isinstance(seconds := said.get("expiration"), float):
        found["expiration"] = str(round(seconds * 1000))
    if isinstance(moment := said.get("timestamp"), datetime):
        found["timestamp"] = int(moment.timestamp())
    return BasicProperties(
        **found,
        priority=said.get("priority"),  # type: ignore[arg-type]
        headers={name: _field(value) for name, value in headers.items()} or None,
    )


def from_basic(basic: BasicProperties, routing_key: str) -> Said:
    """Read what is said."""
    found: dict[str, object] = {name: getattr(basic, name.replace("-", "_")) for name in _TEXTS}
    found |= {HEADER + name: _value(value) for name, value in (basic.headers or {}).items()}
    return present(
        found,
        {
            "routing key": routing_key,
            "persistent": None if basic.delivery_mode is None else basic.delivery_mode == 2,
            "priority": basic.priority,
            "expiration": None if basic.expiration is None else int(basic.expiration) / 1000,
            "timestamp": None if basic.timestamp is None else _moment(basic.timestamp),
        },
    )


def present(*found: Said) -> Said:
    """Leave out what is not there."""
    return {name: value for each in found for name, value in each.items() if value not in (None, "")}


def _field(value: Any) -> Any:
    return Timestamp(int(value.timestamp())) if isinstance(value, datetime) else value


def _value(value: Any) -> Any:
    return _moment(value.seconds) if isinstance(value, Timestamp) else value


def _moment(seconds: int) -> datetime | int:
    """Return a time, or the number of one that Python does not have."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError):
        return seconds
