"""The table of operations agrees with their types."""

import pytest

from triomq.protocols.control import OPERATIONS, Browse, ListQueues, Operation, OperationRow, name_of


def test_every_operation_has_a_row() -> None:
    assert {row.operation for row in OPERATIONS.values()} == set(Operation.__subclasses__())


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=OPERATIONS)
def test_each_says_what_it_asks(row: OperationRow) -> None:
    assert (row.operation.__doc__ or "").partition("\n")[0].partition("?")[1] == "?"


def test_an_operation_knows_its_name_on_the_wire() -> None:
    assert name_of(ListQueues()) == "queues"
    assert name_of(Browse("q")) == "browse"
