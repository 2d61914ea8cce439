"""Users, passwords and SASL mechanisms; no protocol."""

from triomq.security.mechanisms import Credentials, read_amqplain, read_plain
from triomq.security.users import Users

__all__ = ["Credentials", "Users", "read_amqplain", "read_plain"]
