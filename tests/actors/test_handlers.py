from typing import Generic, TypeVar

import pytest

from triomq.actors import Actor, InPlaceActor, Message, Ping, Request, System, describe_handlers
from triomq.actors.handlers import handler_table

from .cast import Add, Counter, Log, Note

T = TypeVar("T")


class Later(Request["Answer"], frozen=True):
    """Its answer is defined below: the table is built when the class is first started."""


class Answer:
    pass


class Pick(Request[T], Generic[T], frozen=True):
    choice: T


class PickNumber(Pick[int], frozen=True):
    pass


def test_handler_is_any_method_with_one_parameter_named_message() -> None:
    table = handler_table(Counter)
    assert table.plain[Add] is Counter.add
    assert table.plain[Note] is Counter.note
    assert not table.asynchronous


def test_plain_and_async_handlers_are_in_tables_of_their_own() -> None:
    class Both(Actor):
        def add(self, message: Add) -> int:
            return 0

        async def note(self, message: Note) -> None:
            pass

    table = handler_table(Both)
    assert set(table.plain) == {Add, Ping}  # every actor answers Ping
    assert list(table.asynchronous) == [Note]
    assert table.accepts(Add)
    assert table.accepts(Note)
    assert not table.accepts(Later)


def test_the_table_is_built_once_per_class_and_not_inherited() -> None:
    class Child(Counter):
        def later(self, message: Later) -> Answer:
            return Answer()

    assert handler_table(Counter) is handler_table(Counter)
    assert handler_table(Child) is not handler_table(Counter)
    assert Later in handler_table(Child).plain
    assert Add in handler_table(Child).plain


def test_methods_that_take_other_things_are_no_handlers() -> None:
    class Helpful(InPlaceActor):
        def any_message(self, message: Message) -> None:
            pass

        def text(self, message: str) -> None:
            pass

        def two(self, message: Note, other: int) -> None:
            pass

        def _helper(self, note: Note) -> None:
            pass

        def unknown(self, note: "NotThere") -> None:  # type: ignore[name-defined]  # noqa: F821
            pass

    assert set(handler_table(Helpful).plain) == {Ping}


def test_handler_whose_answer_is_not_the_requests_is_refused() -> None:
    class Wrong(InPlaceActor):
        def add(self, message: Add) -> str:
            return ""

    with pytest.raises(TypeError, match=r"add returns str, but Add promises int; make the two the same"):
        handler_table(Wrong)


def test_handler_of_a_mere_message_answers_nothing() -> None:
    class Wrong(InPlaceActor):
        def note(self, message: Note) -> int:
            return 0

    with pytest.raises(TypeError, match="note returns int, but Note promises None"):
        handler_table(Wrong)


def test_handler_without_a_return_annotation_is_refused() -> None:
    class Wrong(InPlaceActor):
        def add(self, message: Add):  # type: ignore[no-untyped-def]
            return 0

    with pytest.raises(TypeError, match=r"no return annotation; write `-> int`"):
        handler_table(Wrong)


def test_annotations_that_cannot_be_resolved_are_explained() -> None:
    class Wrong(InPlaceActor):
        def add(self, message: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
            pass

    with pytest.raises(TypeError, match=r"looks like a handler.*Nowhere.*at module level"):
        handler_table(Wrong)


def test_two_handlers_for_one_message_are_refused() -> None:
    class Wrong(InPlaceActor):
        def one(self, message: Note) -> None:
            pass

        def two(self, message: Note) -> None:
            pass

    with pytest.raises(TypeError, match="two handlers for Note: one and two; keep one"):
        handler_table(Wrong)


def test_answers_may_be_named_before_they_are_defined() -> None:
    class Fine(InPlaceActor):
        def later(self, message: Later) -> Answer:
            return Answer()

    assert Later in handler_table(Fine).plain


def test_generic_requests_promise_what_they_are_given() -> None:
    class Fine(InPlaceActor):
        def pick(self, message: Pick[str]) -> str:
            return message.choice

        def pick_number(self, message: PickNumber) -> int:
            return message.choice

    assert set(handler_table(Fine).plain) == {Pick, PickNumber, Ping}

    class Wrong(InPlaceActor):
        def pick(self, message: Pick[str]) -> int:
            return 0

    with pytest.raises(TypeError, match=r"pick returns int, but .*Pick\[str\] promises str"):
        handler_table(Wrong)


def test_empty_hook_costs_no_call() -> None:
    class Quiet(InPlaceActor):
        pass

    assert not handler_table(Quiet).has_on_start
    assert not handler_table(Quiet).has_after_batch
    assert not handler_table(Quiet).has_run
    assert handler_table(Counter).has_on_start


async def test_bad_table_is_refused_at_the_start(system: System) -> None:
    class Wrong(InPlaceActor):
        async def note(self, message: Note) -> None:
            pass

    with pytest.raises(TypeError, match=r"in place, but has async handlers: note. Make them plain, or derive"):
        await system.start(Wrong)
    assert list(system.registry) == ["/"]


async def test_message_without_a_handler_is_an_error_at_the_sender(system: System) -> None:
    class Stranger(Message, frozen=True):
        pass

    log = Log()
    ref = await system.start(lambda: Counter(log))
    with pytest.raises(TypeError, match=r"Counter has no handler for .*Stranger; it handles Add, AskBoom, Boom"):
        ref.tell_nowait(Stranger())
    assert ref.state == "running"


def test_handlers_are_described_with_the_place_of_their_code() -> None:
    class Both(Actor):
        def add(self, message: Add) -> int:
            return 0

        async def note(self, message: Note) -> None:
            pass

    add, note, ping = describe_handlers(Both).splitlines()
    assert add.startswith("Add ")
    assert f"Both.add  {__name__}:{Both.add.__code__.co_firstlineno}" in add
    assert note.split()[1] == "async"
    assert ping.split()[0] == "Ping"


def test_public_handler_may_call_its_message_as_it_likes() -> None:
    class Taker(InPlaceActor):
        def take(self, note: Note) -> None:
            pass

    assert set(handler_table(Taker).plain) == {Note, Ping}
