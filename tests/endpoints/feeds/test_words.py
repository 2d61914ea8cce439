"""Which types of feeds, pipes and joins a domain has."""

from itertools import combinations

import pytest

from triomq.endpoints.feeds import (
    PROFILES,
    QUEUE_TYPES,
    BadFeedName,
    UnknownType,
    require_feed_name,
    require_type,
    sink_kind,
    with_included,
)

AMQP9_FEEDS = ["", "fanout", "direct", "topic", "headers", "rotator", "service"]


@pytest.mark.parametrize("kind", AMQP9_FEEDS)
def test_feed_of_the_profile_amqp9_has_each_of_its_types(kind: str) -> None:
    require_type("feed", kind, ["4/AMQP9"])
    assert (sink_kind(kind) is None) is (kind in QUEUE_TYPES)


def test_profile_amqp9_includes_the_defaults() -> None:
    assert with_included(["4/AMQP9"]) == with_included(["3/Defaults", "4/AMQP9"]) == ("3/Defaults", "4/AMQP9")
    assert with_included([]) == ()


def test_domain_with_the_defaults_alone_has_one_type_of_each() -> None:
    require_type("feed", "", ["3/Defaults"])
    require_type("pipe", "fifo", ["3/Defaults"])
    with pytest.raises(UnknownType) as caught:
        require_type("feed", "topic", ["3/Defaults"])
    assert str(caught.value) == ("the type of the feed is 'topic'; this domain has \"\"; send one of these, or none")


@pytest.mark.parametrize(("kind", "found"), [("feed", "system"), ("pipe", "stream"), ("join", "topic")])
def test_unknown_type_is_refused(kind: str, found: str) -> None:
    with pytest.raises(UnknownType):
        require_type(kind, found, ["4/AMQP9"])


@pytest.mark.parametrize("name", ["news", "a.b-c_d", "größe", "amq.direct", "x" * 255, "", "...", ".a"])
def test_name_is_left_as_it_is(name: str) -> None:
    require_feed_name(name)


@pytest.mark.parametrize("name", ["a/b", "a b", "a@b", "a\n", "\x7f", "\0", "x" * 256, "ö" * 128, ".", ".."])
def test_name_that_others_cannot_have_is_refused_and_not_changed(name: str) -> None:
    with pytest.raises(BadFeedName):
        require_feed_name(name)


def test_types_of_two_profiles_do_not_overlap() -> None:
    # 2/RestMS: MUST NOT.
    for one, other in combinations(PROFILES.values(), 2):
        assert not set(one.feeds) & set(other.feeds)
        assert not set(one.pipes) & set(other.pipes)


def test_what_a_profile_includes_is_there() -> None:
    assert {each for profile in PROFILES.values() for each in profile.includes} <= set(PROFILES)
    assert set(QUEUE_TYPES) <= set(PROFILES["4/AMQP9"].feeds)
