"""What a document asks for, where it is posted or put."""

import pytest

from triomq.protocols.restms import (
    Changes,
    Document,
    DomainElement,
    FeedElement,
    HeaderElement,
    JoinElement,
    MessageElement,
    PipeElement,
    Problem,
    changed,
    posted,
    published,
)

FEED, PIPE, JOIN = (
    FeedElement(name="news", type="topic", title="News"),
    PipeElement(title="worker"),
    JoinElement(feed="/restms/feed/news"),
)
CURRENT = FeedElement(name="news", type="topic", title="News", license="none")


def code_of(found: object) -> tuple[str, int]:
    assert isinstance(found, Problem), found
    return found.code, found.status


def test_feed_and_pipe_are_posted_to_a_domain() -> None:
    assert posted(Document(feeds=(FEED,)), "domain") is FEED
    assert posted(Document(pipes=(PIPE,)), "domain") is PIPE


def test_join_is_posted_to_a_pipe_and_has_an_address() -> None:
    assert posted(Document(joins=(JOIN,)), "pipe") == JoinElement(feed="/restms/feed/news", address="*")
    join = JoinElement(feed="/restms/feed/news", address="", headers=(HeaderElement("a", "b"),))
    assert posted(Document(joins=(join,)), "pipe") is join


@pytest.mark.parametrize(
    ("document", "on"),
    [
        (Document(joins=(JOIN,)), "domain"), (Document(messages=(MessageElement(),)), "domain"),
        (Document(domains=(DomainElement(),)), "domain"), (Document(feeds=(FEED,)), "pipe"),
        (Document(pipes=(PIPE,)), "pipe"),
        (Document(feeds=(FEED,), joins=(JOIN,)), "domain"),
    ],
)  # fmt: skip
def test_what_belongs_elsewhere_is_refused_with_403(document: Document, on: str) -> None:
    assert code_of(posted(document, on)) == ("not-creatable", 403)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("document", "on", "code"),
    [
        (Document(), "domain", "incomplete"), (Document(feeds=(FEED, FEED)), "domain", "several"),
        (Document(feeds=(FEED,), pipes=(PIPE,)), "domain", "several"),
        (Document(joins=(JoinElement(),)), "pipe", "incomplete"),
        (Document(joins=(JoinElement(feed=""),)), "pipe", "incomplete"), (Document(), "pipe", "incomplete"),
    ],
)  # fmt: skip
def test_what_cannot_be_created_is_refused_with_400(document: Document, on: str, code: str) -> None:
    assert code_of(posted(document, on)) == (code, 400)  # type: ignore[arg-type]


def test_feed_without_a_name_is_private() -> None:
    for feed in (FeedElement(), FeedElement(name="")):
        assert posted(Document(feeds=(feed,)), "domain") is feed


def test_name_of_a_pipe_is_not_looked_at() -> None:
    pipe = PipeElement(name="cached\n", type="fifo")
    assert posted(Document(pipes=(pipe,)), "domain") is pipe


def test_messages_are_posted_to_a_feed_in_any_number() -> None:
    messages = (MessageElement(address="a"), MessageElement(address="b"))
    assert published(Document(messages=messages)) is messages
    assert code_of(published(Document())) == ("incomplete", 400)
    assert code_of(published(Document(messages=messages, pipes=(PIPE,)))) == ("not-creatable", 403)


def test_title_and_license_of_a_feed_can_be_changed() -> None:
    assert changed(Document(feeds=(FeedElement(title="New", license=""),)), CURRENT) == Changes("New", "")
    assert changed(Document(feeds=(FeedElement(),)), CURRENT) == Changes()


def test_title_of_a_pipe_can_be_changed() -> None:
    assert changed(Document(pipes=(PipeElement(title="New", size="5"),)), PIPE) == Changes("New")


def test_name_and_type_can_be_repeated_or_empty_and_not_changed() -> None:
    assert changed(Document(feeds=(CURRENT,)), CURRENT) == Changes("News", "none")
    assert changed(Document(feeds=(FeedElement(name="", type="", title="New"),)), CURRENT) == Changes("New")
    assert code_of(changed(Document(feeds=(FeedElement(name="other"),)), CURRENT)) == ("fixed", 403)
    assert code_of(changed(Document(feeds=(FeedElement(type="fanout"),)), CURRENT)) == ("fixed", 403)


def test_document_of_another_kind_changes_nothing() -> None:
    for document in (Document(pipes=(PIPE,)), Document(), Document(joins=(JOIN,))):
        assert code_of(changed(document, CURRENT)) == ("incomplete", 400)
    assert code_of(changed(Document(feeds=(FEED, FEED)), CURRENT)) == ("several", 400)
