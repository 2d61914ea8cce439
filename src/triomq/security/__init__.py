"""Users, permissions and SASL mechanisms; no protocol."""

from triomq.security.failures import FailedLogins
from triomq.security.mechanisms import (
    Accepted,
    AMQPlain,
    Challenge,
    Credentials,
    Denied,
    External,
    MakeMechanism,
    Mechanism,
    Pending,
    Plain,
    Step,
    read_amqplain,
    read_plain,
)
from triomq.security.permissions import ALL, ANY_DOMAIN, Access, Permission, permission_in
from triomq.security.scram import Scram
from triomq.security.user import (
    ADMINISTRATOR,
    DEFAULT_LIMITS,
    MONITORING,
    UNLIMITED,
    UserLimits,
    UserRecord,
    make_administrator,
)
from triomq.security.users import UserChanges, Users
from triomq.security.verifiers import (
    ITERATIONS,
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    SCRAM_HASHES,
    make_verifier,
    read_verifier,
)

__all__ = [
    "ADMINISTRATOR",
    "ALL",
    "ANY_DOMAIN",
    "DEFAULT_LIMITS",
    "ITERATIONS",
    "LEAST_ITERATIONS",
    "MONITORING",
    "MOST_ITERATIONS",
    "SCRAM_HASHES",
    "UNLIMITED",
    "AMQPlain",
    "Accepted",
    "Access",
    "Challenge",
    "Credentials",
    "Denied",
    "External",
    "FailedLogins",
    "MakeMechanism",
    "Mechanism",
    "Pending",
    "Permission",
    "Plain",
    "Scram",
    "Step",
    "UserChanges",
    "UserLimits",
    "UserRecord",
    "Users",
    "make_administrator",
    "make_verifier",
    "permission_in",
    "read_amqplain",
    "read_plain",
    "read_verifier",
]
