"""A list cut into pages, each as large as one answer may be."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from triomq.core import Restarting
from triomq.errors import PreconditionFailed
from triomq.protocols.control import Cursor, Page, encode

T = TypeVar("T")

_FRAME = len(b'{"items":[],"next":null}')


class Paged(msgspec.Struct, Generic[T], frozen=True):
    """One item of a list.

    Args:
        cursor: The ``after`` that goes on behind it; None when the list has one page only.
        record: The item.
        shorten: Makes it fit into so many bytes, if it can be made to.
    """

    cursor: Cursor | None
    record: T
    shorten: Callable[[T, int], T] | None = None


class PageEnd(msgspec.Struct, frozen=True):
    """In place of an item: the page is to end here, since enough was looked at that is not in it."""

    cursor: Cursor


def fill_page(entries: Iterable[Paged[T] | PageEnd], *, limit: int, room: int) -> Page[msgspec.Raw]:
    """Put as many entries into a page as its limit and its room allow, at least one if there is any.

    A page is shorter where an entry has to be waited for: the entries before it are an answer already.

    Args:
        entries: What is left of the list; nothing behind the page's end is looked at but one entry. They may raise
            ``Restarting``.
        limit: Most entries.
        room: Most bytes of the page as JSON.

    Raises:
        PreconditionFailed: Not even one fits.
        Restarting: Not even one is there yet.
    """
    items: list[msgspec.Raw] = []
    last: Cursor | None = None
    room -= _FRAME
    try:
        for entry in entries:
            if isinstance(entry, PageEnd):
                return Page(items, entry.cursor)
            if len(items) == limit:
                return Page(items, last)
            free = room - len(encode(entry.cursor)) - 1  # and a comma
            item = encode(entry.record)
            if len(item) > free and items:
                return Page(items, last)
            if len(item) > free:
                item = _shortened(entry, free)
            room -= len(item) + 1
            items.append(msgspec.Raw(item))
            last = entry.cursor
    except Restarting:
        if not items:
            raise
        return Page(items, last)
    return Page(items)


def _shortened(entry: Paged[T], free: int) -> bytes:
    item = b"" if entry.shorten is None else encode(entry.shorten(entry.record, free))
    if not 0 < len(item) <= free:
        raise PreconditionFailed("an item does not fit into the frames of this connection; agree on a larger frame_max")
    return item
