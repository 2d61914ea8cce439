"""XML as others send it, and XML that is meant to do harm."""

import pytest

from triomq.protocols.restms import (
    XML,
    ContentElement,
    Document,
    FeedElement,
    HeaderElement,
    MediaType,
    MessageElement,
    PipeElement,
    Problem,
    parse,
    render,
)
from triomq.protocols.restms.limits import DEEPEST, MOST_ATTRIBUTES, MOST_ELEMENTS


def read(body: bytes | str, charset: str = "") -> Document:
    document = parse(body.encode() if isinstance(body, str) else body, MediaType("text/xml", "t", charset))
    assert isinstance(document, Document), document
    return document


def problem(body: bytes | str, charset: str = "") -> Problem:
    found = parse(body.encode() if isinstance(body, str) else body, MediaType("text/xml", "t", charset))
    assert isinstance(found, Problem), found
    return found


def title_of(body: bytes | str, charset: str = "") -> str | None:
    return read(body, charset).feeds[0].title


# What the Perl client of 2009 writes, by XML::Simple: another namespace, empty names, and indented text.
PERL_MESSAGE = """\
<restms xmlns="http://www.imatix.com/schema/restms">
  <message address="rec.pets.dogs" reply_to="">
    <content encoding="base64" type="text/plain">
      SGVsbG8s
      IFdvcmxkIQ==
    </content>
    <header name="k" value="v" />
  </message>
</restms>
"""


def test_message_of_the_perl_client_is_read() -> None:
    (message,) = read(PERL_MESSAGE).messages
    assert (message.address, message.reply_to, message.headers) == ("rec.pets.dogs", "", (HeaderElement("k", "v"),))
    assert message.contents[0].value.split() == ["SGVsbG8s", "IFdvcmxkIQ=="]


@pytest.mark.parametrize(
    "body",
    [
        '<restms xmlns="http://www.imatix.com/schema/restms"><feed title="a"/></restms>',
        '<restms xmlns="http://www.restms.org/schema/restms"><feed title="a"/></restms>',
        '<r:restms xmlns:r="any:thing"><r:feed title="a" r:title="b"/></r:restms>',
        '<r:restms><feed title="a"/></r:restms>',
        "<restms><feed title='a'/></restms>",
        '<?xml version="1.0" standalone="yes"?><!-- a --><?p i?><restms><feed title="&#97;"/> text </restms>',
    ],
    ids=["2009", "specification", "prefix", "undeclared prefix", "none", "comments"],
)
def test_namespace_makes_no_difference(body: str) -> None:
    assert read(body) == Document(feeds=(FeedElement(title="a"),))


def test_unknown_elements_and_attributes_are_passed_over_and_not_kept() -> None:
    body = """<restms x="1"><new><feed title="inside"/></new><feed title="a" new="b" href:x="c"><pipe/></feed>
              <message new="1"><header name="n" value="v" x="y">text</header><new>text</new></message></restms>"""
    assert read(body) == Document(
        feeds=(FeedElement(title="a"),), messages=(MessageElement(headers=(HeaderElement("n", "v"),)),)
    )


def test_attribute_with_the_name_of_a_child_is_no_child() -> None:
    body = '<restms feed="x"><pipe join="x" message="y" title="a"><message content="z" header=""/></pipe></restms>'
    assert read(body) == Document(pipes=(PipeElement(title="a", messages=(MessageElement(),)),))


def test_text_of_a_content_is_what_stands_in_it_alone() -> None:
    body = (
        '<restms><message>no<content value="no">a<new>no<b>no</b></new>b<![CDATA[<c>]]></content>no</message></restms>'
    )
    assert read(body).messages[0].contents == (ContentElement(value="ab<c>"),)


def test_white_space_in_a_text_stays_and_in_an_attribute_is_that_of_xml() -> None:
    body = "<restms><message address='a\tb\nc&#9;&#10;&#13;d'><content> a\t\r\nb&#13;\n</content></message></restms>"
    (message,) = read(body).messages
    assert (message.address, message.contents[0].value) == ("a b c\t\n\rd", " a\t\nb\r\n")


def test_white_space_that_is_written_comes_back_as_it_was() -> None:
    message = MessageElement(address=" \t\r\n ", contents=(ContentElement(value="\r\n\t \r]]>"),))
    assert read(render(Document(messages=(message,)), XML)).messages == (message,)


@pytest.mark.parametrize("text", ["größe", "日本", "\U0001f600", "\x7f\x80\x85\u2028\ufdd0"])
def test_text_in_any_script_is_written_as_it_is(text: str) -> None:
    body = render(Document(feeds=(FeedElement(title=text),)), XML)
    assert text.encode() in body
    assert title_of(body) == text


LAUGHS = (
    b'<!DOCTYPE lolz [<!ENTITY lol "lol">'
    + b"".join(b'<!ENTITY lol%d "%b">' % (n, b"&lol%d;" % (n - 1) * 10) for n in range(1, 10))
    + b']><restms><feed title="&lol9;"/></restms>'
)


@pytest.mark.parametrize(
    "body",
    [
        LAUGHS,
        b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><restms><feed title="&x;"/></restms>',
        b'<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x.dtd"><restms/>',
        b"<!DOCTYPE restms><restms/>",
        b'<!DOCTYPE r [<!ATTLIST feed title CDATA "default">]><restms><feed/></restms>',
    ],
    ids=["billion laughs", "file", "external", "empty", "attributes"],
)
def test_doctype_is_refused_before_what_is_in_it_is_read(body: bytes) -> None:
    found = problem(body)
    assert (found.code, found.status) == ("unreadable", 400)
    assert "DOCTYPE" in found.text


def test_entity_that_xml_does_not_have_is_refused() -> None:
    assert "undefined entity" in problem('<restms><feed title="&nbsp;"/></restms>').text


def test_depth_is_limited() -> None:
    def nested(levels: int) -> str:
        return f"<restms>{'<a>' * levels}{'</a>' * levels}</restms>"

    assert read(nested(DEEPEST - 1)) == Document()
    assert problem(nested(DEEPEST)).status == 413
    assert problem(nested(100_000)).status == 413


def test_elements_are_limited() -> None:
    assert len(read(f"<restms>{'<feed/>' * (MOST_ELEMENTS - 1)}</restms>").feeds) == MOST_ELEMENTS - 1
    assert problem(f"<restms>{'<feed/>' * MOST_ELEMENTS}</restms>").status == 413
    assert problem(f"<restms>{'<new/>' * MOST_ELEMENTS}</restms>").status == 413


def test_attributes_are_limited_in_one_element_and_in_all() -> None:
    def many(count: int) -> str:
        return " ".join(f"a{n}='>'" for n in range(count))

    assert read(f"<restms><feed {many(MOST_ATTRIBUTES)}>==</feed></restms>").feeds == (FeedElement(),)
    assert problem(f"<restms><feed {many(MOST_ATTRIBUTES + 1)}/></restms>").status == 413
    half = f"<feed {many(MOST_ATTRIBUTES // 2 + 1)}/>"
    assert problem(f"<restms>{half}{half}</restms>").status == 413
    text = "=" * 2 * MOST_ATTRIBUTES
    assert read(f"<restms><message><content>{text}</content></message></restms>").messages[0].contents[0].value == text


def test_attributes_are_as_long_as_the_document() -> None:
    assert title_of(f'<restms><feed title="{"x" * 1_000_000}"/></restms>') == "x" * 1_000_000
    assert title_of(f'<restms><feed title="a" {"y" * 1_000_000}="x"/></restms>') == "a"


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("<restms><feed title='ö'/></restms>".encode(), ""),
        ("\ufeff<restms><feed title='ö'/></restms>".encode(), ""),
        ("<?xml version='1.0' encoding='UTF-8'?><restms><feed title='ö'/></restms>".encode(), ""),
        ("<?xml version='1.0' encoding='ISO-8859-1'?><restms><feed title='ö'/></restms>".encode("latin-1"), ""),
        ("<restms><feed title='ö'/></restms>".encode("latin-1"), "iso-8859-1"),
        ("<?xml version='1.0' encoding='iso-8859-1'?><restms><feed title='ö'/></restms>".encode(), "utf-8"),
        ("<restms><feed title='ö'/></restms>".encode("utf-16"), ""),
        ("<?xml version='1.0' encoding='utf-16'?><restms><feed title='ö'/></restms>".encode("utf-16"), ""),
    ],
    ids=["UTF-8", "byte order mark", "declared", "Latin 1", "by charset", "charset wins", "UTF-16", "UTF-16 declared"],
)
def test_encodings_that_expat_reads_are_read(body: bytes, charset: str) -> None:
    assert title_of(body, charset) == "ö"


@pytest.mark.parametrize("encoding", ["windows-1252", "zlib_codec", "idna", "utf-7", "utf-32", "x" * 500, "rot13"])
def test_other_encodings_are_refused(encoding: str) -> None:
    found = problem(f"<?xml version='1.0' encoding='{encoding}'?><restms><feed title='a'/></restms>")
    assert found.status == 400
    assert "send UTF-8" in found.text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<restms><feed title='\xff'/></restms>", "invalid token"),
        (b"<restms><feed title='\xed\xa0\x80'/></restms>", "invalid token"),
        (b"<restms><feed title='\xc0\xaf'/></restms>", "invalid token"),
        (b"<restms><feed title='&#0;'/></restms>", "invalid character number"),
        (b"<restms><feed title='&#xD800;'/></restms>", "invalid character number"),
        (b"<restms><feed title='\x01'/></restms>", "invalid token"),
        (b"<restms><feed title='\xef\xbf\xbf'/></restms>", "invalid token"),
        (b"<restms><feed title='a' title='b'/></restms>", "duplicate attribute"),
        (b"<restms><feed>", "no element found"),
        (b"<restms></feed>", "mismatched tag"),
        (b"<restms/><restms/>", "junk after document element"),
        (b"<restms", "unclosed token"),
        (b"{}", "invalid token"),
        (b" <?xml version='1.0'?><restms/>", "XML or text declaration"),
        (b"<!-- a -->", "no element found"),
        (b"<html/>", "it must be restms"),
        (b"<message/>", "it must be restms"),
    ],
)  # fmt: skip
def test_what_is_no_document_is_a_problem_that_says_why(body: bytes, reason: str) -> None:
    found = problem(body)
    assert (found.code, found.status) == ("unreadable", 400)
    assert reason in found.text


def test_problem_says_where_it_is() -> None:
    assert "line 2, column 7" in problem("<restms>\n<feed <\n</restms>").text
