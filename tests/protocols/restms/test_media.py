"""Which form an answer has, and what a body is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.restms import (
    EVENTS,
    JSON,
    TEXT_XML,
    XML,
    MediaType,
    Problem,
    accepted,
    content_coding,
    document_type,
    message_type,
)


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (None, TEXT_XML), ("", TEXT_XML), ("*/*", TEXT_XML), ("text/*", TEXT_XML), (" */* ", TEXT_XML),
        ("application/restms+xml", XML), ("application/restms+json", JSON), ("text/xml", TEXT_XML),
        ("application/xml", TEXT_XML), ("application/json", JSON), ("application/*", XML),
        ("Application/RestMS+JSON", JSON), ("application/json; charset=utf-8", JSON), ('text/xml;a="b,c"', TEXT_XML),
        # What programs send: a browser, axios, and one with wishes.
        ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", TEXT_XML),
        ("application/json, text/plain, */*", JSON),
        ("application/restms+xml;q=0.5, application/restms+json", JSON),
        ("application/restms+xml, application/restms+json", XML),
        ("text/xml;q=0, */*", Problem), ("application/restms+json;q=0, application/restms+xml;q=0.001", XML),
        ("application/restms+xml;q=2, application/json;q=0.1", JSON),
        ("*/*;q=0", Problem), ("image/png", Problem), ("text/html", Problem), ("text/event-stream", Problem),
        (",,;", Problem), ("x", Problem), ("*", Problem), ("x" * 3000, Problem), ("text/xml," * 1000, Problem),
    ],
)  # fmt: skip
def test_answer_has_the_form_that_is_asked_for(accept: str | None, media: object) -> None:
    found = accepted(accept)
    if media is Problem:
        assert isinstance(found, Problem)
        # 1/RestTL: SHOULD be 501.
        assert found.status == 501
    else:
        assert found is media


def test_answer_to_a_post_has_the_form_of_what_was_posted_where_none_is_asked_for() -> None:
    assert accepted(None, JSON) is accepted("*/*", JSON) is accepted("text/*, image/png", JSON) is JSON
    assert accepted("text/xml", JSON) is TEXT_XML
    assert accepted(None, MediaType("text/xml", "t", "iso-8859-1")) is TEXT_XML


def test_events_are_offered_by_pipes_alone() -> None:
    assert accepted("text/event-stream", events=True) is EVENTS
    assert accepted("application/json, text/event-stream", events=True) is JSON
    problem = accepted("image/png", events=True)
    assert isinstance(problem, Problem)
    assert problem.text == (
        "Accept is 'image/png'; this can be sent as application/restms+xml, text/xml, application/restms+json, "
        "text/event-stream; ask for one of these"
    )


@pytest.mark.parametrize(
    ("content_type", "media"),
    [
        (None, TEXT_XML), ("", TEXT_XML), (" ", TEXT_XML), ("text/xml", TEXT_XML), ("application/xml", TEXT_XML),
        ("application/restms+xml", XML), ("application/restms+json", JSON), ("application/json", JSON),
        ("TEXT/XML; charset=UTF-8", MediaType("text/xml", "t", "utf-8")),
        ('application/restms+xml;charset="iso-8859-1"', MediaType("application/restms+xml", "x", "iso-8859-1")),
        ("application/json;charset=utf-8", MediaType("application/restms+json", "j", "utf-8")),
        ("text/xml;", TEXT_XML), ("text/xml; a=b", TEXT_XML),
        ("application/*", None), ("*/*", None), ("text/plain", None), ("application/x-www-form-urlencoded", None),
        ("xml", None), ("text/xml; charset=windows-1252", None), ("application/json; charset=iso-8859-1", None),
        ("text/xml, text/xml", TEXT_XML),
    ],
)  # fmt: skip
def test_document_is_in_a_form_of_ours(content_type: str | None, media: MediaType | None) -> None:
    found = document_type(content_type)
    if media is None:
        assert isinstance(found, Problem)
        assert found.status == 501
    else:
        assert found == media


@pytest.mark.parametrize("content_type", ["application/restms+xml", "text/xml", "application/restms+json"])
def test_post_to_a_feed_in_a_form_of_ours_is_of_messages(content_type: str) -> None:
    found = message_type(content_type)
    assert isinstance(found, MediaType)
    assert found.name == content_type
    assert isinstance(message_type(f" {content_type.upper()}; charset=utf-8"), MediaType)


@pytest.mark.parametrize("content_type", [None, "", " ", "application/json", "application/xml", "image/png", "?"])
def test_post_to_a_feed_in_any_other_form_is_a_content(content_type: str | None) -> None:
    assert message_type(content_type) is None


def test_messages_in_an_unknown_charset_are_refused_and_not_staged() -> None:
    problem = message_type("text/xml; charset=koi8-r")
    assert isinstance(problem, Problem)
    assert (problem.status, "koi8-r" in problem.text) == (501, True)


@pytest.mark.parametrize("coding", ["", "identity", "Identity", "identity, identity", " "])
def test_body_without_a_coding_is_taken(coding: str) -> None:
    assert content_coding(coding) is None


@pytest.mark.parametrize("coding", ["gzip", "br", "x-gzip", "identity, gzip", "gzip,", "aws-chunked"])
def test_body_with_a_coding_is_501(coding: str) -> None:
    problem = content_coding(coding)
    assert isinstance(problem, Problem)
    assert (problem.status, problem.code, repr(coding) in problem.text) == (501, "media-type", True)


@given(text=st.text(max_size=40) | st.text('text/xml;q=,0." \\*application+restms', max_size=40))
def test_any_text_is_a_form_or_a_problem(text: str) -> None:
    assert isinstance(accepted(text), MediaType | Problem)
    assert isinstance(document_type(text), MediaType | Problem)
    message_type(text)
