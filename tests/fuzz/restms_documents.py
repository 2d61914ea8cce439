"""Fuzz the documents of RestMS: ``python -m tests.fuzz.restms_documents --seconds 60 --seed 1``.

Documents in both forms, spoilt by word and by byte, are read by whatever reads them in a broker. Whatever comes:
nothing is raised; what is read can be written in both forms, and is then read as the same; both ways of reading JSON
agree; what a message asks for is properties that AMQP can carry, and a body, or a problem of one line.
"""

import json
import sys
from random import Random
from typing import Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.restms import (
    JSON,
    TEXT_XML,
    XML,
    Document,
    FeedElement,
    MediaType,
    MessageElement,
    Problem,
    basic_properties,
    changed,
    content_body,
    headers_table,
    message_of,
    parse,
    posted,
    published,
    render,
    route,
)
from triomq.protocols.restms.json_form import _parse_carefully

from .loop import Violation, fuzz_inputs

BATCH: Final = 200
CURRENT: Final = FeedElement(name="news", type="topic")

FORMS: Final = (XML, JSON, TEXT_XML, MediaType("text/xml", "t", "iso-8859-1"), MediaType("text/xml", "t", "utf-16"))

IN_XML: Final = (
    "<restms>", "</restms>", "<restms/>", "<message", "<message/>", "</message>", "<header", "<content>", "</content>",
    "<pipe", "<join", "<feed", "<feed/>", "<domain>", "<profile/>", "<new>", "</new>", "<r:feed/>", "/>", ">", "<",
    '"', " ", "\n", ' name="n"', ' value="v"', " value='v'", ' address="a.b"', ' priority="9"', ' priority="x"',
    ' timestamp="Sun, 06 Nov 1994 08:49:37 GMT"', ' encoding="base64"', ' encoding="plain"', ' type=""', ' async="1"',
    ' href="/restms/resource/x"', ' feed="http://h/restms/feed/%zz"', ' escaped="value name"', ' message="x"',
    ' message_id="' + "x" * 300 + '"', "&amp;", "&#0;", "&#1;", "&lol;", "%01%FF", "aGk=", "&#xFFFE;", "<![CDATA[",
    "]]>", "<!DOCTYPE r>", '<!DOCTYPE r [<!ENTITY lol "lol">]>', "<!--", "-->", "<?xml version='1.0'?>", "<?x?>",
    "\ufeff", "ö", "<?xml version='1.0' encoding='windows-1252'?>", "<a>" * 40, "\ufffe", "\x01", ' xmlns="x"',
    " a:b='c'", "]]",
)  # fmt: skip
IN_JSON: Final = (
    '{"restms":', "{", "}", "[", "]", ",", ":", '"', "\\", '"message":[{', '"message":{', '"header":[{',
    '"content":[{', '"feed":[{"title":"a"}]', '"pipe":null', '"join":[]', '"address":"a.b"', '"priority":5',
    '"priority":"x"', "true", '"address":"b"', '"address":["a"]', '"name":"n"', '"value":"v"', '"value":1e400',
    '"new":{"x":[1]}', '"async":true', '"encoding":"base64"', '"escaped":"value address"', '"address":"%01%FF"',
    "null", "-0", "1" * 400, '"\\ud800"', '"title":"\\ud83d\\ude00"', '"title":"\\udcff"', "NaN", '"\\u0000"',
    "[" * 40, '{"a":' * 40, "\ufeff", " ", "\n", "ö", '"timestamp":784111777', '"message_id":"' + "x" * 300 + '"',
    "}]}}", "}]}]}}", '"restms":{}', '\\"', '\\u0022',
)  # fmt: skip


class Input(NamedTuple):
    """One input.

    Args:
        media: What it is said to be.
        body: The document.
    """

    media: MediaType
    body: bytes

    def describe(self) -> str:
        return f"{self.media}: {self.body!r}"


MESSAGES: Final = {
    False: (
        "<restms>", "<message", ' address="a.b"', ' message_id="7"', ">", "<header", ' name="k"', ' value="v"', "/>",
        "<content", ' type="text/plain"', ' encoding="plain"', ">", "hi", "</content>", "</message>", "</restms>",
    ),
    True: (
        '{"restms":', "{", '"message":[{', '"address":"a.b"', ",", '"message_id":"7"', ",", '"header":[{', '"name":"k"',
        ",", '"value":"v"', "}]", ",", '"content":[{', '"type":"text/plain"', ",", '"encoding":"plain"', ",",
        '"value":"hi"', "}]", "}]}}",
    ),
}  # fmt: skip
"""The document of a message in words, by whether it is JSON."""


NAMES: Final = (
    "message",
    "message",
    "message",
    "header",
    "content",
    "join",
    "pipe",
    "feed",
    "domain",
    "profile",
    "new",
)
ATTRIBUTES: Final = (
    "address", "name", "value", "type", "encoding", "href", "priority", "delivery_mode", "timestamp", "message_id",
    "escaped", "feed", "header", "new", "async",
)  # fmt: skip
VALUES: Final = (
    "", "a.b", "k", "5", "2", "plain", "base64", "aGk=", "/restms/resource/x", "Sun, 06 Nov 1994 08:49:37 GMT",
    "ö\u2028", "%01%FF", "value name", "x" * 300, "\t\r\n", "<&>\"'", "\x7f", "a b", "784111777",
)  # fmt: skip


class Node(NamedTuple):
    """An element that may be of RestMS."""

    name: str
    attributes: list[tuple[str, str]]
    children: list["Node"]
    text: str

    def in_xml(self) -> str:
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes)
        return f"<{self.name}{attributes}>{escape(self.text)}{''.join(map(Node.in_xml, self.children))}</{self.name}>"

    def in_json(self) -> str:
        members = [f'"{name}": {json.dumps(value)}' for name, value in self.attributes]
        for name in sorted({child.name for child in self.children}):
            members.append(f'"{name}": [{", ".join(child.in_json() for child in self.children if child.name == name)}]')
        return f"{{{', '.join(members)}}}"


def grow(random: Random, name: str, depth: int) -> Node:
    """Make an element, with attributes once or twice and children that it has or has not."""
    attributes = [(random.choice(ATTRIBUTES), random.choice(VALUES)) for _ in range(random.randrange(4))]
    if random.random() < 0.9:
        attributes = list(dict(attributes).items())
    names = ("header", "content") if name == "message" else NAMES
    children = [grow(random, random.choice(names), depth + 1) for _ in range(random.randrange(4 - depth))]
    return Node(name, attributes, children, random.choice(VALUES))


def generate(random: Random) -> Input:
    """Make a document of elements, or one of words."""
    if random.random() < 0.4:
        root, media = grow(random, "restms", 0), random.choice((XML, JSON))
        text = f'{{"restms": {root.in_json()}}}' if media is JSON else root.in_xml()
        return Input(media, text.encode())
    return generate_of_words(random)


def generate_of_words(random: Random) -> Input:
    """Make a document that is spoilt by words and bytes, or by nothing; or one of words alone."""
    media = random.choice((XML, JSON, JSON, *FORMS))
    words = IN_JSON if media.is_json else IN_XML
    text = [*MESSAGES[media.is_json]] if random.random() < 0.8 else []
    for _ in range(random.choice((0, 1, 1, 2, 3, 8)) if text else random.randrange(1, 20)):
        at = random.randrange(len(text) + 1)
        match random.randrange(4):
            case 0:
                del text[at : at + 1]
            case 1:
                text[at:at] = text[random.randrange(at + 1) : at]
            case _:
                text[at : at + random.randrange(2)] = [random.choice(words)]
    encoding = random.choice(("utf-8", "utf-8", "utf-8", "utf-8", "utf-16", "latin-1"))
    body = bytearray("".join(text), encoding, "replace")
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        at = random.randrange(len(body) + 1)
        body[at : at + random.randrange(3)] = random.randbytes(random.randrange(3))
    return Input(media, bytes(body))


def play(given: Input) -> str:
    """Read one input, and use what was read; return how it ended."""
    document = parse(given.body, given.media)
    form = "JSON" if given.media.is_json else "XML"
    if given.media.is_json and given.body.strip():
        carefully = _parse_carefully(given.body.removeprefix("\ufeff".encode()))
        if outcome(document) != outcome(carefully):
            raise Violation(f"read in two ways: {document} and {carefully}")
    if isinstance(document, Problem):
        check_problem(document)
        return f"{form}: {document.code}"
    for media in (XML, JSON):
        again = parse(render(document, media), media)
        if again != document:
            raise Violation(f"{document} is {again} when written in {media.name}")
    asked = posted(document, "domain"), posted(document, "pipe"), published(document), changed(document, CURRENT)
    for found in asked:
        if isinstance(found, Problem):
            check_problem(found)
    for message in document.messages:
        use(message)
    for join in document.joins:
        headers_table(join.headers)
        route(join.feed or "")
    return f"{form}: {'messages' if document.messages else 'no messages'}"


def outcome(found: Document | Problem) -> object:
    """Return what must be the same; a reason may be told in other words."""
    return found.code if isinstance(found, Problem) else found


def check_problem(problem: Problem) -> None:
    """Check that an answer can be made of a problem."""
    if problem.status < 400 or problem.body.count(b"\n") != 1 or len(problem.body) > 1000:
        raise Violation(f"{problem} is no answer")


def use(message: MessageElement) -> None:
    """Do with a message what a broker does: take its properties and its body, and deliver it again."""
    properties, body = basic_properties(message), content_body(message)
    for found in (properties, body):
        if isinstance(found, Problem):
            check_problem(found)
    if not isinstance(properties, BasicProperties) or isinstance(body, Problem):
        return
    encode_properties(properties)
    if isinstance(body, str):
        route(body)
        return
    octets = body[0] if body else b""
    delivered = message_of(properties, octets, address=message.address or "")
    again = content_body(delivered)
    if basic_properties(delivered) != properties or (again[0] if isinstance(again, tuple) else b"") != octets:
        raise Violation(f"{message} is delivered as {delivered}")


def main(arguments: list[str] | None = None) -> int:
    return fuzz_inputs(__doc__, arguments, BATCH, "restms", generate, play)


if __name__ == "__main__":
    sys.exit(main())
