"""When a request is done, and when it is answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols import http_date
from triomq.protocols.restms import JSON, OURS, TEXT_XML, XML, Conditions, Preferences, Version, etag

AT = 784111777
VERSION = Version("17", AT + 0.5)
NOW, BEFORE, AFTER = http_date(AT), http_date(AT - 1), http_date(AT + 1)
EPOCH = Version("17", 0.0)


def unchanged(**fields: str) -> bool:
    return read(fields).unchanged(VERSION, XML)


def refused(**fields: str) -> bool:
    return read(fields).refusal(VERSION) is not None


def waits(**fields: str) -> bool:
    return read(fields).must_wait(VERSION, XML)


def read(fields: dict[str, str]) -> Conditions:
    return Conditions.of({name.replace("_", "-"): text for name, text in fields.items()})


def test_entity_tags_differ_by_media_type() -> None:
    # 1/RestTL: an ETag MUST depend on the MIME type.
    assert etag(VERSION, JSON) == '"17-j"'
    assert len({etag(VERSION, media) for media in OURS}) == 3


def test_get_without_conditions_is_answered() -> None:
    assert not unchanged()
    assert not waits()


def test_put_and_delete_without_conditions_are_done() -> None:
    assert not refused()


@pytest.mark.parametrize("tags", ['"17-x"', "17-x", 'W/"17-x"', '"1", "17-x"', "*", ' "17-x" ,'])
def test_get_of_what_the_client_has_is_unchanged(tags: str) -> None:
    assert unchanged(if_none_match=tags)


@pytest.mark.parametrize("tags", ['"18-x"', '"17-j"', '"17"', "", ",", '"'])
def test_get_of_something_else_is_answered(tags: str) -> None:
    assert not unchanged(if_none_match=tags)


def test_get_is_unchanged_by_its_date() -> None:
    assert unchanged(if_modified_since=NOW)
    assert unchanged(if_modified_since=AFTER)
    assert not unchanged(if_modified_since=BEFORE)


def test_tag_precedes_the_date_of_a_get() -> None:
    assert not unchanged(if_none_match='"1"', if_modified_since=AFTER)
    assert unchanged(if_none_match='"17-x"', if_modified_since=BEFORE)


@pytest.mark.parametrize("tags", ['"17-x"', '"17-j"', "17-t", '"1", "17-x"', "*", '"17"'])
def test_put_of_what_the_client_has_seen_is_done_whichever_form_it_saw(tags: str) -> None:
    assert not refused(if_match=tags)


@pytest.mark.parametrize("tags", ['"18-x"', "18", "", '"x"'])
def test_put_of_something_else_is_refused_with_412(tags: str) -> None:
    problem = read({"if-match": tags}).refusal(VERSION)
    assert problem is not None
    assert (problem.status, "its tag is 17" in problem.text) == (412, True)


def test_put_is_refused_by_its_date() -> None:
    assert not refused(if_unmodified_since=NOW)
    assert not refused(if_unmodified_since=AFTER)
    assert refused(if_unmodified_since=BEFORE)
    problem = read({"if-unmodified-since": BEFORE}).refusal(VERSION)
    assert problem is not None
    assert NOW in problem.text


def test_tag_precedes_the_date_of_a_put() -> None:
    assert not refused(if_match='"17-x"', if_unmodified_since=BEFORE)
    assert refused(if_match='"1-x"', if_unmodified_since=AFTER)


def test_get_waits_until_the_resource_has_changed() -> None:
    assert waits(when_none_match='"17-x"')
    assert not waits(when_none_match='"16-x"')
    assert waits(when_modified_after=NOW)
    assert not waits(when_modified_after=BEFORE)


def test_get_with_both_waits_for_both() -> None:
    assert waits(when_none_match='"16-x"', when_modified_after=NOW)
    assert waits(when_none_match='"17-x"', when_modified_after=BEFORE)
    assert not waits(when_none_match='"16-x"', when_modified_after=BEFORE)


@pytest.mark.parametrize("text", ["yesterday", "", "0", "x" * 10_000])
def test_date_that_is_none_is_passed_over(text: str) -> None:
    assert not unchanged(if_modified_since=text)
    assert not refused(if_unmodified_since=text)
    assert not waits(when_modified_after=text)


@given(text=st.text(max_size=30))
def test_any_text_is_read(text: str) -> None:
    fields = [name.replace("_", "-") for name in Conditions.__struct_fields__]
    conditions = Conditions.of(dict.fromkeys(fields, text))
    conditions.unchanged(VERSION, TEXT_XML)
    conditions.refusal(VERSION)
    conditions.must_wait(VERSION, JSON)
    Preferences.of({"prefer": text})


@pytest.mark.parametrize(
    ("prefer", "preferences"),
    [
        ("wait=5", Preferences(wait=5.0)),
        ("respond-async, Wait = 10 ; x=y, return=representation", Preferences(wait=10.0, representation=True)),
        ('wait="3", wait=9', Preferences(wait=3.0)),
        ("wait=0", Preferences(wait=0.0)),
        ("return=minimal", Preferences()),
        ("wait=-1, wait=x, wait", Preferences()),
        ("wait=12345678901", Preferences()),
        ("wait=٣", Preferences()),
    ],
)
def test_preferences_are_read_and_others_passed_over(prefer: str, preferences: Preferences) -> None:
    assert Preferences.of({"prefer": prefer}) == preferences
    assert Preferences.of({}) == Preferences()
