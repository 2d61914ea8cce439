"""Lists cut into pages."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.endpoints.management.paging import Paged, fill_page
from triomq.errors import PreconditionFailed
from triomq.protocols.control import Page, encode

ROOM = 300


def paged(texts: list[str]) -> Iterator[Paged[str]]:
    for number, text in enumerate(texts, 1):
        yield Paged(number, text, lambda text, room: text[: max(0, room - 2)])


@given(st.lists(st.text("ab", max_size=ROOM * 2)), st.integers(1, 5))
def test_pages_hold_the_whole_list_and_none_is_larger_than_its_room(texts: list[str], limit: int) -> None:
    found: list[str] = []
    while True:
        page = fill_page(list(paged(texts))[len(found) :], limit=limit, room=ROOM)
        assert len(encode(page)) <= ROOM
        assert len(page.items) <= limit
        found += (msgspec.json.decode(item, type=str) for item in page.items)
        if page.next is None:
            break
        assert page.next == len(found)
    assert len(found) == len(texts)
    assert all(text.startswith(cut) for cut, text in zip(found, texts, strict=True))


def test_empty_list_is_one_empty_page() -> None:
    assert fill_page([], limit=1, room=ROOM) == Page([])


def test_page_looks_at_one_entry_behind_it_and_no_more() -> None:
    entries = paged(["a"] * 9)
    assert fill_page(entries, limit=3, room=ROOM).next == 3
    assert next(entries).cursor == 5


def test_entry_is_not_shortened_if_it_fits_a_page_of_its_own() -> None:
    page = fill_page(paged(["a", "b" * (ROOM - 30)]), limit=9, room=ROOM)
    assert ([bytes(item) for item in page.items], page.next) == ([b'"a"'], 1)


def test_single_entry_that_cannot_be_shortened_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="frame_max"):
        fill_page([Paged(1, "a" * ROOM)], limit=1, room=ROOM)
    with pytest.raises(PreconditionFailed, match="frame_max"):
        fill_page([Paged(1, "a" * ROOM, lambda text, room: text)], limit=1, room=ROOM)
