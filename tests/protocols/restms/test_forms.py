"""Documents in both forms: examples of the specification, and round trips of any document."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.restms import (
    JSON,
    TEXT_XML,
    XML,
    ContentElement,
    Document,
    DomainElement,
    DomainWriter,
    FeedElement,
    HeaderElement,
    JoinElement,
    MediaType,
    MessageElement,
    PipeElement,
    Problem,
    ProfileElement,
    parse,
    render,
)

from .strategies import documents

MESSAGE = Document(
    messages=(
        MessageElement(
            address="a.b",
            message_id="7",
            headers=(HeaderElement("k", "v"),),
            contents=(ContentElement(type="text/plain", encoding="plain", value="hi"),),
        ),
    )
)
MESSAGE_IN_XML = b"""\
<restms><message address="a.b" message_id="7"><header name="k" value="v"/>
  <content type="text/plain" encoding="plain">hi</content></message></restms>"""
PIPE = Document(
    pipes=(
        PipeElement(
            name="K3..",
            type="",
            title="worker",
            joins=(
                JoinElement(
                    href="http://h/restms/resource/J9..", type="", address="K3..", feed="http://h/restms/feed/default"
                ),
            ),
            messages=(MessageElement(href="http://h/restms/resource/M1..", asynclet="1"),),
        ),
    )
)
PIPE_IN_JSON = b"""\
{"restms":{"pipe":[{"name":"K3..","type":"","title":"worker",
  "join":[{"href":"http://h/restms/resource/J9..","type":"","address":"K3..","feed":"http://h/restms/feed/default"}],
  "message":[{"href":"http://h/restms/resource/M1..","async":"1"}]}]}}"""
DOMAIN_IN_XML = b"""\
<?xml version="1.0"?>
<restms xmlns = "http://www.restms.org/schema/restms">
<domain name = "default" title = "Default domain">
<profile name = "4/AMQP9"
href = "http://www.restms.org/spec:4/AMQP9" />
<feed name="default" type="" title="Default feed" href="/restms/feed/default"/>
</domain>
</restms>"""

both = pytest.mark.parametrize("media", [XML, JSON], ids=["XML", "JSON"])


def read(body: bytes, media: MediaType = XML) -> Document:
    document = parse(body, media)
    assert isinstance(document, Document), document
    return document


def problem(body: bytes, media: MediaType) -> Problem:
    found = parse(body, media)
    assert isinstance(found, Problem), found
    return found


def test_posted_message_is_read() -> None:
    assert read(MESSAGE_IN_XML) == read(MESSAGE_IN_XML, TEXT_XML) == MESSAGE


def test_created_pipe_is_read() -> None:
    assert read(PIPE_IN_JSON, JSON) == PIPE


def test_domain_of_the_specification_is_read() -> None:
    profile = ProfileElement(name="4/AMQP9", href="http://www.restms.org/spec:4/AMQP9")
    feed = FeedElement(name="default", type="", title="Default feed", href="/restms/feed/default")
    domain = DomainElement(name="default", title="Default domain", profiles=(profile,), feeds=(feed,))
    assert read(DOMAIN_IN_XML) == Document(domains=(domain,))


def test_pipe_in_json_is_written_as_its_example() -> None:
    # The same members in the same order; white space apart.
    assert render(PIPE, JSON) == json.dumps(json.loads(PIPE_IN_JSON), separators=(",", ":")).encode()


def test_message_in_xml_is_written_as_its_example() -> None:
    assert render(MESSAGE, XML) == render(MESSAGE, TEXT_XML)
    assert render(MESSAGE, XML).decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<restms xmlns="http://www.restms.org/schema/restms">\n'
        '<message address="a.b" message_id="7">\n'
        '<header name="k" value="v"/>\n'
        '<content type="text/plain" encoding="plain">hi</content>\n'
        "</message>\n</restms>\n"
    )


def test_json_has_an_array_for_one_child_texts_alone_and_no_namespace() -> None:
    (message,) = json.loads(render(MESSAGE, JSON))["restms"]["message"]
    assert message["header"] == [{"name": "k", "value": "v"}]
    assert message["content"] == [{"type": "text/plain", "encoding": "plain", "value": "hi"}]
    assert b"xmlns" not in render(MESSAGE, JSON)


@both
@given(document=documents())
def test_any_document_is_read_as_it_was_written(document: Document, media: MediaType) -> None:
    assert read(render(document, media), media) == document


@given(document=documents())
def test_document_goes_from_one_form_to_the_other_and_back_without_loss(document: Document) -> None:
    there = read(render(document, XML))
    assert read(render(read(render(there, JSON), JSON), XML)) == document


@both
@given(body=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_document_or_a_problem(body: bytes, media: MediaType) -> None:
    assert isinstance(parse(body, media), Document | Problem)


@both
@pytest.mark.parametrize("body", [b"", b" \r\n\t"])
def test_no_document_at_all_is_a_problem_of_its_own(body: bytes, media: MediaType) -> None:
    assert problem(body, media).code == "empty"


@both
def test_quotation_marks_are_escaped(media: MediaType) -> None:
    # 1/RestTL: in both forms they MUST be.
    body = render(Document(feeds=(FeedElement(title='"&<>'),)), media)
    assert (b"&quot;&amp;&lt;&gt;" if media is XML else b'\\"&<>') in body


@both
def test_empty_and_absent_attributes_are_told_apart(media: MediaType) -> None:
    document = Document(feeds=(FeedElement(name="", type=None),))
    assert read(render(document, media), media) == document
    assert b"type" not in render(document, media)


@both
def test_control_characters_and_octets_are_carried_by_the_written_rule(media: MediaType) -> None:
    document = Document(messages=(MessageElement(address="a%\x01\udcff", reply_to="plain"),))
    body = render(document, media)
    if media is XML:
        assert b'reply_to="plain" escaped="address"' in body
        assert b'address="a%25%01%FF"' in body
    else:
        assert b'"address":"a%25\\u0001%FF","reply_to":"plain","escaped":"address"' in body
    assert read(body, media) == document


def test_control_character_needs_no_escape_in_json() -> None:
    assert render(Document(feeds=(FeedElement(title="\0"),)), JSON) == b'{"restms":{"feed":[{"title":"\\u0000"}]}}'


@both
def test_mark_of_escapes_that_names_what_is_not_there_is_passed_over(media: MediaType) -> None:
    body = {
        XML: b'<restms><feed escaped="name title header" title="%41"/></restms>',
        JSON: b'{"restms":{"feed":[{"escaped":"name title header","title":"%41"}]}}',
    }
    assert read(body[media], media).feeds == (FeedElement(title="A"),)


@both
def test_text_is_unescaped_once_however_often_it_is_named(media: MediaType) -> None:
    body = {
        XML: b'<restms><feed escaped="title title" title="%2541"/></restms>',
        JSON: b'{"restms":{"feed":[{"escaped":"title title","title":"%2541"}]}}',
    }
    assert read(body[media], media).feeds == (FeedElement(title="%41"),)


@both
def test_half_of_a_surrogate_pair_from_our_own_process_is_written_as_a_replacement(media: MediaType) -> None:
    written = read(render(Document(feeds=(FeedElement(title="a\ud800"),)), media), media)
    assert written.feeds[0].title == "a\ufffd"


@both
@given(document=documents())
def test_domain_that_is_written_some_feeds_at_a_time_is_written_as_at_once(
    document: Document, media: MediaType
) -> None:
    bare = DomainElement(name="default", profiles=(ProfileElement(name="3/Defaults"),))
    writer = DomainWriter(bare, media)
    for feed in document.feeds:
        writer.add([feed])
    whole = render(Document(domains=(msgspec.structs.replace(bare, feeds=document.feeds),)), media)
    assert writer.finish() == whole
