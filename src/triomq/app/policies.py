"""Policies as they are configured, in RabbitMQ's words, and the core's policies that are made of them."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import msgspec

from triomq.checked import Checked
from triomq.core import Policy
from triomq.endpoints import read_policy
from triomq.errors import ConfigError


class PolicyConfig(Checked, frozen=True, forbid_unknown_fields=True):
    """Options for queues and exchanges by their names, whichever client declares them.

    Args:
        name: The policy's name.
        pattern: A regular expression, found anywhere in the names of what it applies to.
        definition: The options, as RabbitMQ calls them: ``max-length``, ``message-ttl`` in milliseconds and so on.
        apply_to: Whether it is about queues, those of one type, exchanges, or queues and exchanges.
        priority: The higher one holds where several match.
        domain: The domain that it is about; empty for all domains.
        operator: Whether it is an operator policy, which holds for queues beside the one that applies otherwise.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    pattern: str
    definition: Mapping[str, object]
    apply_to: Literal["queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all"] = "all"
    priority: int = 0
    domain: str = ""
    operator: bool = False

    def policy(self) -> Policy:
        """Return the core's policy.

        Raises:
            ConfigError: The definition is wrong; the text begins with the path of the mistake.
        """
        return read_policy(
            self.name,
            self.pattern,
            self.definition,
            apply_to=self.apply_to,
            priority=self.priority,
            operator=self.operator,
        )


def policies_in(domain: str, policies: Iterable[PolicyConfig]) -> tuple[Policy, ...]:
    """Return the policies of a domain."""
    return tuple(found.policy() for found in policies if found.domain in ("", domain))


def check_policies(policies: Iterable[PolicyConfig], domains: Iterable[str]) -> None:
    """Check policies, one by one and together.

    Raises:
        ConfigError: One is wrong, names no domain that there is, or two of one domain have the same name.
    """
    names = list(domains)
    seen: dict[tuple[str, str, bool], int] = {}
    for number, found in enumerate(policies):
        where = f"policies[{number}]"
        try:
            found.policy()
        except ConfigError as error:
            raise ConfigError(f"{where}.{error}") from None
        if found.domain and found.domain not in names:
            raise ConfigError(f"{where}.domain: found {found.domain!r}, but domains has {', '.join(map(repr, names))}")
        for domain in [found.domain] if found.domain else names:
            other = seen.setdefault((domain, found.name, found.operator), number)
            if other != number:
                raise ConfigError(f"{where}.name: {found.name!r} is the name of policies[{other}] too; choose another")
