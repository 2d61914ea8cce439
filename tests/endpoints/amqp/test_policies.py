import pytest

from triomq.core import AppliesTo, Overflow, Policy, PolicyOptions
from triomq.endpoints.amqp.policies import policy_definition, read_policy
from triomq.errors import ConfigError

WHOLE = {
    "message-ttl": 1500,
    "expires": 60000,
    "max-length": 5,
    "max-length-bytes": 0,
    "overflow": "reject-publish-dlx",
    "dead-letter-exchange": "dead",
    "dead-letter-routing-key": "k",
    "delivery-limit": 3,
    "alternate-exchange": "",
    "max-age": "7D",
    "stream-max-segment-size-bytes": 1000,
}


def test_every_setting_is_read_and_written() -> None:
    found = read_policy("p", "^a", WHOLE, apply_to="exchanges", priority=7)
    options = PolicyOptions(
        message_ttl=1.5,
        expires=60.0,
        max_length=5,
        max_bytes=0,
        overflow=Overflow.REJECT_PUBLISH_DLX,
        dead_letter_sink="dead",
        dead_letter_key="k",
        delivery_limit=3,
        alternate="",
        max_age=7 * 86400.0,
        segment_bytes=1000,
    )
    assert found == Policy("p", "^a", options, AppliesTo.SINKS, 7)
    assert policy_definition(options) == WHOLE


def test_settings_about_nodes_and_disks_are_passed_over() -> None:
    assert read_policy("p", "", {"ha-mode": "all", "queue-mode": "lazy"}).options == PolicyOptions()
    assert policy_definition(PolicyOptions()) == {}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"definition": {}}, "definition: found nothing; set one of alternate-exchange, "),
        ({"definition": {"max-length": -9}}, "definition.max-length: found -9, expected a number from 0 to 9223372"),
        ({"definition": {"max-length": "a"}}, "definition.max-length: found 'a', expected a number"),
        ({"definition": {"max-length": True}}, "definition.max-length: found True, expected a number"),
        ({"definition": {"expires": 0}}, "definition.expires: found 0, expected a number of milliseconds from 1 to 31"),
        ({"definition": {"message-ttl": 2**40}}, "definition.message-ttl: found 1099511627776, expected a number of"),
        ({"definition": {"max-age": 3600}}, "definition.max-age: found 3600, expected a number and a unit of Y, M, D,"),
        ({"definition": {"max-age": "0s"}}, "definition.max-age: found '0s', expected a number and a unit of Y, M, D,"),
        ({"definition": {"stream-max-segment-size-bytes": 0}}, "definition.stream-max-segment-size-bytes: found 0, ex"),
        ({"definition": {"overflow": "wait"}}, "definition.overflow: found 'wait', expected one of 'drop-head', 'rej"),
        ({"definition": {"overflow": 1}}, "definition.overflow: found 1, expected one of"),
        ({"definition": {"dead-letter-exchange": 5}}, "definition.dead-letter-exchange: found 5, expected a text"),
        ({"definition": {"max-priority": 9}}, "definition.max-priority is no setting of policies; declare queues with"),
        ({"definition": {"x-max_length": 9}}, "definition.x-max_length is no setting of policies; did you mean 'max-l"),
        ({"definition": {"nonsense": 9}}, "definition.nonsense is no setting of policies; known are alternate-exchan"),
        ({"pattern": "(a"}, "pattern: the pattern '(a' of policy 'p' is no regular expression: missing ), "),
        (
            {"apply_to": "sinks"},
            "apply_to: found 'sinks', allowed are 'queues', 'classic_queues'",
        ),
    ],
)
def test_mistake_is_shown_with_its_place(changes: dict[str, object], text: str) -> None:
    said: dict[str, object] = {"name": "p", "pattern": "a", "definition": {"max-length": 1}, **changes}
    with pytest.raises(ConfigError) as refused:
        read_policy(**said)  # type: ignore[arg-type]
    assert str(refused.value).startswith(text)
