"""How large a document may be, in elements; how many bytes it may have is for the one who reads them."""

from typing import Final

from triomq.protocols.restms.problems import Problem

MOST_ELEMENTS: Final = 16_384
"""A MiB has room for 260,000 empty ones, which would take 80 MB as structs, and a fifth of a second of a broker that
serves others meanwhile. A thousand messages with a dozen headers each are fewer than this."""

MOST_ATTRIBUTES: Final = 32_768
"""In all elements of a document in XML: two for each element that there may be. A MiB has room for 150,000."""

MOST_PIECES: Final = 49_152
"""Texts, names among them, and commas of a document in JSON that has to be read carefully, which takes 15 ms for as
many. A MiB has room for 500,000."""

DEEPEST: Final = 32
"""Levels, the root among them. RestMS has four; the others are for elements that are passed over."""


class Unreadable(Exception):
    """A document cannot be read; never leaves the package."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.text)


def refuse_elements() -> Unreadable:
    """Say that there are too many elements."""
    text = f"the document has more than {MOST_ELEMENTS:,} elements, headers included; send it in several requests"
    return Unreadable(Problem("too-large", text))


def refuse_attributes() -> Unreadable:
    """Say that there are too many attributes."""
    text = f"the elements of the document have more than {MOST_ATTRIBUTES:,} attributes; send it in several requests"
    return Unreadable(Problem("too-large", text))


def refuse_pieces() -> Unreadable:
    """Say that there are too many names and values."""
    text = (
        f"the document has more than {MOST_PIECES:,} names, texts and commas, and something that RestMS has no word "
        "for, such as numbers; leave that out, or send the document in several requests"
    )
    return Unreadable(Problem("too-large", text))


def refuse_depth() -> Unreadable:
    """Say that elements are nested too deep."""
    return Unreadable(
        Problem("too-large", f"elements are nested more than {DEEPEST} deep, of which RestMS uses 4; leave them out")
    )
