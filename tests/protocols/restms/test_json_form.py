"""JSON as others send it, read in two ways, and JSON that is meant to do harm."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.restms import (
    JSON,
    ContentElement,
    Document,
    FeedElement,
    HeaderElement,
    MessageElement,
    PipeElement,
    Problem,
    json_form,
    parse,
    render,
)
from triomq.protocols.restms.limits import MOST_ELEMENTS, MOST_PIECES

from .strategies import PLAIN_TEXTS, documents


def read(body: bytes | str) -> Document:
    document = parse(body.encode() if isinstance(body, str) else body, JSON)
    assert isinstance(document, Document), document
    return document


def problem(body: bytes | str) -> Problem:
    found = parse(body.encode() if isinstance(body, str) else body, JSON)
    assert isinstance(found, Problem), found
    return found


def title_of(body: bytes | str) -> str | None:
    return read(body).feeds[0].title


def test_numbers_and_booleans_become_texts_as_they_were_written() -> None:
    body = '{"restms":{"message":[{"priority":5,"delivery_mode":2.0,"timestamp":1e3,"type":true,"app_id":false}]}}'
    message = MessageElement(priority="5", delivery_mode="2.0", timestamp="1e3", type="true", app_id="false")
    assert read(body).messages == (message,)
    assert title_of(f'{{"restms":{{"feed":[{{"title":{"9" * 5000}}}]}}}}') == "9" * 5000


def test_null_is_as_if_it_were_not_there() -> None:
    assert read('{"restms":{"pipe":null,"feed":[{"title":null,"name":"a"}]}}') == Document(
        feeds=(FeedElement(name="a"),)
    )
    assert read('{"restms":{"message":[{"content":[{"value":null}]}]}}').messages[0].contents == (ContentElement(),)


def test_one_child_may_stand_without_an_array() -> None:
    body = '{"restms":{"message":{"address":"a","header":{"name":"n","value":1},"content":{"value":"b"}}}}'
    message = MessageElement(address="a", headers=(HeaderElement("n", "1"),), contents=(ContentElement(value="b"),))
    assert read(body).messages == (message,)


def test_unknown_names_are_passed_over_and_not_kept() -> None:
    body = """{"restms":{"xmlns":"x","new":[{"feed":[]}],"feed":[{"title":"a","new":{"a":[1,{}]},"headers":"b",
               "pipe":[{}]}]},"more":1}"""
    assert read(body) == Document(feeds=(FeedElement(title="a"),))


@pytest.mark.parametrize(
    "body",
    [
        '{"restms":{"message":[{"address":"a"}],"message":[{"address":"b"}]}}',
        '{"restms":{"message":[{"address":"a","address":"b"}]}}',
        '{"restms":{"message":[{"address":"a","address":"a"}]}}',
        '{"restms":{},"restms":{}}',
        '{"restms":{"message":[{"new":{"x":1,"x":2}}]}}',
        '{"restms":{"message":[{"address":"a","\\u0061ddress":"b"}]}}',
    ],
)
def test_same_key_twice_is_refused(body: str) -> None:
    found = problem(body)
    assert (found.status, "twice" in found.text) == (400, True)


def test_key_that_is_there_twice_is_found_among_ten_thousand_in_one_pass() -> None:
    # Comparing each with all others would take seconds.
    keys = ",".join(f'"{number}":1' for number in range(10_000))
    assert "'9999' twice" in problem(f'{{"restms":{{{keys},"9999":1}}}}').text


NAMES = st.sampled_from(["title", "name", "type", "new", "x"])


@given(pairs=st.lists(st.tuples(NAMES, PLAIN_TEXTS), max_size=6), ascii_only=st.booleans())
def test_both_ways_of_reading_come_to_the_same(pairs: list[tuple[str, str]], *, ascii_only: bool) -> None:
    # Whether an object is looked at closely is decided by its quotation marks: unknown and doubled names must be seen.
    members = ",".join(f'"{name}":{json.dumps(text, ensure_ascii=ascii_only)}' for name, text in pairs)
    body = f'{{"restms":{{"feed":[{{{members}}}]}}}}'.encode()
    assert parse(body, JSON) == json_form._parse_carefully(body)


@given(document=documents())
def test_what_we_write_is_read_alike_in_both_ways(document: Document) -> None:
    body = render(document, JSON)
    assert parse(body, JSON) == json_form._parse_carefully(body) == document


def test_usual_documents_are_read_in_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_form, "_parse_carefully", None)
    body = '{"restms": {"message": [{"address": "ö\\"\\\\", "content": [{"type": "", "value": "b"}]}]}}'
    assert read(body).messages[0].address == 'ö"\\'


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00\\ud800", "a\\uD83D", "\\udcff"])
def test_half_of_a_surrogate_pair_is_refused(text: str) -> None:
    assert "surrogate" in problem(f'{{"restms":{{"feed":[{{"title":"{text}"}}]}}}}').text
    assert title_of('{"restms":{"feed":[{"title":"\\ud83d\\ude00"}]}}') == "\U0001f600"


def test_byte_order_mark_is_passed_over() -> None:
    assert title_of(b'\xef\xbb\xbf{"restms":{"feed":[{"title":"a"}]}}') == "a"


@pytest.mark.parametrize(
    "body",
    [
        b'{"restms":{"feed":[{"title":"\xff"}]}}',
        b'{"restms":{"feed":[{"title":"\xed\xa0\x80"}]}}',
        b'{"restms":{"feed":[{"new":"\xff","title":"a"}]}}',
        '{"restms":{}}'.encode("utf-16"),
        '{"restms":{}}'.encode("utf-32"),
        b'{"restms":{"feed":[{"title":"\x01"}]}}',
        b'{"restms":{"feed":[{"title":NaN}]}}',
        b'{"restms":{"feed":[{"title":-Infinity}]}}',
        b'{"restms":{}} more',
        b'{"restms":{"feed":[{}',
        b"<restms/>",
        b"[]",
        b'"restms"',
        b"{}",
        b'{"restms":[]}',
        b'{"restms":"text"}',
        b'{"feed":[{}]}',
        b'{"restms":{"feed":"text"}}',
        b'{"restms":{"feed":["text"]}}',
        b'{"restms":{"feed":[[]]}}',
        b'{"restms":{"feed":[{"title":[]}]}}',
        b'{"restms":{"feed":[{"title":{"a":1}}]}}',
        b'{"restms":{"feed":[null]}}',
        b"\x00",
    ],
)
def test_what_is_no_document_is_a_problem(body: bytes) -> None:
    found = problem(body)
    assert (found.code, found.status) == ("unreadable", 400)


def test_problem_says_where_it_is() -> None:
    assert "$.feed[0].title" in problem('{"restms":{"feed":[{"title":[1]}]}}').text
    assert "line 2 column 3" in problem('{"restms":\n  x}').text


@pytest.mark.parametrize("body", ["[" * 1_000_000, '{"a":' * 150_000, '{"restms":{"new":' + "[" * 500_000])
def test_depth_is_limited(body: str) -> None:
    assert problem(body).status == 413


def test_elements_are_limited() -> None:
    def many(count: int, item: str = "{}") -> str:
        return f'{{"restms":{{"feed":[{",".join([item] * count)}]}}}}'

    assert len(read(many(MOST_ELEMENTS - 2)).feeds) == MOST_ELEMENTS - 2
    assert problem(many(MOST_ELEMENTS)).status == 413
    assert problem(many(MOST_ELEMENTS, '{"new":1}')).status == 413


def test_names_and_values_that_are_read_carefully_are_limited() -> None:
    def keys(count: int) -> str:
        pairs = ",".join(f'"k{number}":1' for number in range(count))
        return f'{{"restms":{{"feed":[{{{pairs}}}]}}}}'

    assert len(read(keys(MOST_PIECES // 2 - 2)).feeds) == 1
    for body in (keys(MOST_PIECES), f'{{"restms":{{"feed":[{",".join(["1"] * (MOST_PIECES + 1))}]}}}}'):
        assert problem(body).status == 413


@pytest.mark.parametrize("text", ['"' * 60_000, "," * 60_000, '\\",' * 60_000, "\u00e9" * 60_000])
def test_what_is_in_a_text_is_not_counted(text: str) -> None:
    for more in ("", ',"size":1'):  # which is read carefully
        body = f'{{"restms":{{"feed":[{{"title":{json.dumps(text)}{more}}}]}}}}'
        assert title_of(body) == text


def test_brackets_in_a_text_are_not_counted() -> None:
    assert title_of(json.dumps({"restms": {"feed": [{"title": "{" * 100_000}]}})) == "{" * 100_000


def test_every_attribute_is_written_as_a_text() -> None:
    pipe = PipeElement(name="a", size="3", messages=(MessageElement(asynclet="1"),))

    def values(tree: Any) -> list[Any]:
        children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else None
        return [tree] if children is None else [leaf for child in children for leaf in values(child)]

    assert values(json.loads(render(Document(pipes=(pipe,)), JSON))) == ["a", "3", "1"]
