"""Policies as they are configured."""

import pytest

from triomq.app.policies import PolicyConfig, check_policies, policies_in
from triomq.core import AppliesTo, Policy, PolicyOptions
from triomq.errors import ConfigError

LIMIT = {"max-length": 5}


def test_policy_is_about_its_domain_or_all() -> None:
    policies = [PolicyConfig("a", "^a", LIMIT), PolicyConfig("b", "^b", LIMIT, "queues", 3, "shop")]
    everywhere = Policy("a", "^a", PolicyOptions(max_length=5))
    of_the_shop = Policy("b", "^b", PolicyOptions(max_length=5), AppliesTo.QUEUES, 3)
    assert policies_in("default", policies) == (everywhere,)
    assert policies_in("shop", policies) == (everywhere, of_the_shop)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (PolicyConfig("a", "(", LIMIT), r"policies[1].pattern: the pattern '(' of policy 'a' is no regular expression"),
        (PolicyConfig("a", "", {"max-length": -1}), "policies[1].definition.max-length: found -1, expected a number"),
        (PolicyConfig("a", "", LIMIT, domain="b"), "policies[1].domain: found 'b', but domains has 'default', 'shop'"),
        (PolicyConfig("first", "", LIMIT), "policies[1].name: 'first' is the name of policies[0] too; choose another"),
    ],
)
def test_errors_name_the_place(policy: PolicyConfig, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_policies([PolicyConfig("first", "", LIMIT, domain="shop"), policy], ["default", "shop"])
    assert str(refused.value).startswith(text)


def test_domains_may_have_policies_of_one_name() -> None:
    policies = [PolicyConfig("a", "", LIMIT, domain=domain) for domain in ("default", "shop")]
    check_policies(policies, ["default", "shop"])
