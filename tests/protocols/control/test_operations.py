"""The table of operations agrees with their types."""

import pytest

from triomq.protocols.control import OPERATIONS, BrowseQueue, Listing, ListQueues, Operation, OperationRow, name_of


def test_every_operation_has_a_row() -> None:
    kinds = {*Operation.__subclasses__(), *Listing.__subclasses__()} - {Listing}
    assert {row.operation for row in OPERATIONS.values()} == kinds


def test_every_listing_says_where_its_page_begins() -> None:
    assert all("after" in kind.__struct_fields__ for kind in Listing.__subclasses__())


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=OPERATIONS)
def test_each_says_what_it_asks(row: OperationRow) -> None:
    assert (row.operation.__doc__ or "").partition("\n")[0].partition("?")[1] == "?"


def test_operation_knows_its_name_on_the_wire() -> None:
    assert name_of(ListQueues()) == "queues"
    assert name_of(BrowseQueue("q")) == "browse"
