"""Documents of any content, for properties that hold for all of them."""

from hypothesis import strategies as st

from triomq.protocols.restms import (
    ContentElement,
    Document,
    DomainElement,
    FeedElement,
    HeaderElement,
    JoinElement,
    MessageElement,
    PipeElement,
    ProfileElement,
)

OCTETS = st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)
"""Octets that are not UTF-8, as Python's texts have them."""

CONTROLS = st.characters(max_codepoint=0x1F) | st.sampled_from("\x7f\x85\u2028\ufffe\uffff")
MARKUP = st.sampled_from("&<>\"'%;]\r\n\t ")

CHARACTERS = st.characters(exclude_categories=["Cs"])

TEXTS = st.text(CHARACTERS | MARKUP | CONTROLS, max_size=12)
"""What JSON can carry."""

PLAIN_TEXTS = st.text(CHARACTERS.filter(lambda char: char >= " " and char not in "\ufffe\uffff"), max_size=12)
"""What XML can carry as it is."""


def with_octets(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts with octets among them; the octets of two never make up a character, as none that was decoded does."""
    mixed = st.lists(texts | OCTETS, max_size=4).map("".join)
    return mixed.map(lambda text: text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape"))


ANY_TEXTS = with_octets(TEXTS)


def documents(texts: st.SearchStrategy[str] = ANY_TEXTS) -> st.SearchStrategy[Document]:
    """Return documents with such texts."""

    def struct(kind: type, **children: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
        names = [name for name in kind.__struct_fields__ if name not in children]  # type: ignore[attr-defined]
        some_of_them = st.dictionaries(st.sampled_from(names), texts, max_size=3)
        return st.builds(lambda attributes, **others: kind(**attributes, **others), some_of_them, **children)

    def some(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
        return st.lists(strategy, max_size=2).map(tuple)

    headers = some(struct(HeaderElement))
    contents = some(struct(ContentElement, value=texts))
    messages = some(struct(MessageElement, headers=headers, contents=contents))
    joins = some(struct(JoinElement, headers=headers))
    feeds = some(struct(FeedElement))
    return st.builds(
        Document,
        domains=some(struct(DomainElement, profiles=some(struct(ProfileElement)), feeds=feeds)),
        feeds=feeds,
        pipes=some(struct(PipeElement, joins=joins, messages=messages)),
        joins=joins,
        messages=messages,
    )
