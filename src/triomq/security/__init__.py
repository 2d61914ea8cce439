"""Users, passwords and SASL mechanisms; no protocol."""

from triomq.security.mechanisms import (
    Accepted,
    AMQPlain,
    Challenge,
    Credentials,
    Denied,
    MakeMechanism,
    Mechanism,
    Plain,
    Step,
    read_amqplain,
    read_plain,
)
from triomq.security.users import UserChanges, Users

__all__ = [
    "AMQPlain",
    "Accepted",
    "Challenge",
    "Credentials",
    "Denied",
    "MakeMechanism",
    "Mechanism",
    "Plain",
    "Step",
    "UserChanges",
    "Users",
    "read_amqplain",
    "read_plain",
]
