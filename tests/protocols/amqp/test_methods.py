"""The table of methods is whole and agrees with itself."""

from collections import Counter

from triomq.protocols.amqp import AMQP_METHODS, METHODS, Method


def test_numbers_names_and_types_are_unique() -> None:
    for column in (
        [(row.class_id, row.method_id) for row in METHODS],
        [row.name for row in METHODS],
        [row.method for row in METHODS],
    ):
        assert max(Counter(column).values()) == 1


def test_each_type_is_named_as_its_method() -> None:
    for row in METHODS:
        assert row.method.__name__.lower() == row.name.replace(".", "").replace("-", "")


def test_every_type_has_a_row_and_says_what_it_is_for() -> None:
    types = {kind for kind in Method.__subclasses__() if kind.__module__ == Method.__module__}
    assert types == {row.method for row in METHODS}
    assert all(row.method.__doc__ for row in METHODS)


def test_replies_exist_and_come_from_the_other_side() -> None:
    rows = {row.name: row for row in METHODS}
    for row in METHODS:
        for reply in row.replies:
            assert {row.sender, rows[reply].sender} in ({"client", "server"}, {"both"}), row.name
            assert rows[reply].class_id == row.class_id


def test_content_is_of_the_basic_class_alone() -> None:
    names = {row.name for row in METHODS if row.content}
    assert names == {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}


def test_methods_that_hold_no_table_are_not_tracked_by_the_garbage_collector() -> None:
    for layout in AMQP_METHODS.layouts:
        holds_table = any(field.domain == "table" for field in layout.fields)
        assert layout.row.method.__struct_config__.gc is holds_table, layout.row.name
