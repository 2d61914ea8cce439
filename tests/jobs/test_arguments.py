"""Arguments and results are converted by annotations, and what is wrong with them is said with the path to it."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import ConfigError, WrongArguments, WrongResult
from triomq.jobs.arguments import Conversion, read_name


class Person(msgspec.Struct):
    name: str
    age: int = 0


@dataclass
class Place:
    city: str


class Model:
    """As pydantic's are."""

    def __init__(self, name: str) -> None:
        self.name = name

    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"name": self.name, "mode": mode}

    @classmethod
    def model_validate(cls, value: dict[str, str]) -> "Model":
        if "name" not in value:
            raise ValueError("no name")
        return cls(value["name"])


def send(to: str, subject: str = "", *, copies: int = 1) -> str:
    return to


def rich(person: Person, places: list[Place], when: datetime, folder: Path, key: UUID, wait: timedelta) -> None: ...


def loose(first: int, *rest: int, **named: float) -> None: ...


def plain(first, second=2): ...  # type: ignore[no-untyped-def]  # as many functions are


def ahead(later: "Later") -> None: ...


class Later(msgspec.Struct):
    value: int


SEND = Conversion("mail.send", send)


def test_call_is_written_as_released_workers_read_it() -> None:
    payload = SEND.encode(("ada",), {"subject": "hi"})
    assert msgspec.json.decode(payload) == [
        "run",
        {
            "path": "mail",
            "callable": "send",
            "args": ["ada"],
            "kwargs": {"subject": "hi"},
            "class_args": [],
            "class_kwargs": {},
        },
    ]
    assert read_name(payload) == "mail.send"


def test_call_is_read_as_it_was_given() -> None:
    assert SEND.decode(SEND.encode(("ada", "hi"), {"copies": 2})) == (("ada", "hi"), {"copies": 2})
    assert SEND.decode(SEND.encode((), {"to": "ada"})) == ((), {"to": "ada"})


def test_call_of_a_released_client_is_read() -> None:
    payload = b'["run", {"callable": "send", "path": "mail", "args": ["a"], "kwargs": {}, "more": 1}, "more"]'
    assert SEND.decode(payload) == (("a",), {})
    assert SEND.decode(b'["run", {"callable": "send", "path": "mail", "kwargs": {"to": "a"}}]') == ((), {"to": "a"})


def test_values_become_what_the_annotations_say() -> None:
    conversion = Conversion("m.rich", rich)
    now = datetime.now(UTC)
    given = (Person("ada"), [Place("Oslo")], now, Path("/tmp"), UUID(int=5), timedelta(seconds=3))
    assert conversion.decode(conversion.encode(given, {})) == (given, {})


def test_union_that_is_written_with_a_stroke_is_an_annotation() -> None:
    def search(text: str | None, places: list[Place | int] | None = None) -> Place | None: ...

    conversion = Conversion("search", search)
    conversion.check()
    assert conversion.decode(conversion.encode(["a", [Place("Rome"), 1]], {})) == (("a", [Place("Rome"), 1]), {})
    assert conversion.decode_result(b'{"value":null}') is None
    with pytest.raises(WrongArguments, match=r"argument 'text': found int, expected str \| null"):
        conversion.encode([1], {})


def test_class_that_is_defined_further_down_is_found() -> None:
    conversion = Conversion("m.ahead", ahead)
    assert conversion.decode(conversion.encode((Later(1),), {})) == ((Later(1),), {})


def test_arguments_without_annotations_are_what_json_makes_of_them() -> None:
    conversion = Conversion("m.plain", plain)
    assert conversion.decode(conversion.encode(({"a": (1, 2)},), {})) == (({"a": [1, 2]},), {})


def test_any_number_of_arguments_is_converted() -> None:
    conversion = Conversion("m.loose", loose)
    assert conversion.decode(conversion.encode((1, 2, 3), {"x": 1.5})) == ((1, 2, 3), {"x": 1.5})
    with pytest.raises(WrongArguments, match=r"m\.loose: argument 'rest\[1\]': found str, expected int"):
        conversion.encode((1, 2, "3"), {})
    with pytest.raises(WrongArguments, match=r"argument 'named\[\.\.\.\]': found str, expected float"):
        conversion.encode((1,), {"x": "1"})
    with pytest.raises(WrongArguments, match="missing a required argument: 'first'"):
        conversion.encode((), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((5,), {}, "mail.send: argument 'to': found int, expected str"),
        (("a",), {"copies": "2"}, "mail.send: argument 'copies': found str, expected int"),
        ((), {}, "mail.send: missing a required argument: 'to'"),
        (("a",), {"to": "b"}, "mail.send: multiple values for argument 'to'"),
        (("a", "b", 3), {}, "mail.send: too many positional arguments"),
        (("a",), {"subjekt": "b"}, "mail.send: got an unexpected keyword argument 'subjekt'"),
        ((object,), {}, "mail.send: argument 'to': <class 'object'> cannot be sent: a type has no form in JSON"),
    ],
)
def test_wrong_argument_is_named(args: tuple[object, ...], kwargs: dict[str, object], text: str) -> None:
    with pytest.raises(WrongArguments, match=re.escape(text)):
        SEND.encode(args, kwargs)


def test_types_that_were_right_once_are_right_again_and_no_others() -> None:
    def take(number: int, text: str, share: float = 0.0, any_of: Any = None) -> None: ...

    conversion = Conversion("m.take", take)
    for _ in range(2):
        conversion.encode((1, "a"), {})
        conversion.encode((2, "b", 1.0), {})
        conversion.encode((2, "b", 1.0, [1]), {})
        for wrong in [(1,), ("1", "a"), (True, "a"), (1, "a", "b"), (1, "a", float("nan"))]:
            with pytest.raises(WrongArguments):
                conversion.encode(wrong, {})


def test_path_to_what_is_wrong_inside_an_argument_is_given() -> None:
    conversion = Conversion("m.rich", rich)
    places: list[Any] = [{"city": "Oslo"}, {"city": 5}]
    with pytest.raises(WrongArguments, match=r"argument 'places\[1\]\.city': found int, expected str"):
        conversion.encode((Person("ada"), places, datetime.now(UTC), Path("/"), UUID(int=5), timedelta()), {})


def test_message_that_is_no_call_is_refused() -> None:
    for payload in (b"", b"[]", b'{"path": 1}', b"\xff", b"[" * 100_000):
        with pytest.raises(WrongArguments, match="is no call of a function"):
            read_name(payload)
        with pytest.raises(WrongArguments):
            SEND.decode(payload)


def test_models_of_pydantic_are_written_and_checked() -> None:
    def keep(model: Model) -> Model:
        return model

    conversion = Conversion("m.keep", keep)
    ((model,), _) = conversion.decode(conversion.encode((Model("ada"),), {}))
    assert isinstance(model, Model)
    assert model.name == "ada"
    with pytest.raises(WrongArguments, match="argument 'model': no name"):
        conversion.encode(({},), {})
    assert isinstance(conversion.decode_result(conversion.encode_result(model)), Model)


def test_argument_of_a_class_that_json_cannot_carry_is_refused_at_the_start() -> None:
    def odd(value: re.Match[str]) -> None: ...

    with pytest.raises(
        ConfigError,
        match=r"job m\.odd: annotation of 'value': Match has no form in JSON; use a dataclass or a msgspec\.Struct",
    ):
        Conversion("m.odd", odd).check()


def test_annotation_that_is_not_there_at_run_time_is_explained() -> None:
    def early(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # that is what is tested

    with pytest.raises(ConfigError, match=r"name 'Nowhere' is not defined; import it outside `if TYPE_CHECKING`"):
        Conversion("m.early", early).check()


def test_result_is_converted_and_checked_by_the_annotation() -> None:
    def made() -> Person:
        raise NotImplementedError

    conversion = Conversion("m.made", made)
    assert conversion.encode_result(Person("ada")) == b'{"value":{"name":"ada","age":0}}'
    assert conversion.decode_result(b'{"value": {"name": "ada"}}') == Person("ada")
    with pytest.raises(WrongResult, match=r"m\.made: its result is not .*: found int, expected str - at `\$\.name`"):
        conversion.decode_result(b'{"value": {"name": 5}}')
    with pytest.raises(WrongResult, match=r"m\.made: its result <object object .*> cannot be sent"):
        conversion.encode_result(object())


def test_items_of_a_stream_are_converted() -> None:
    async def many() -> AsyncIterator[Person]:
        yield Person("ada")

    conversion = Conversion("m.many", many)
    assert conversion.decode_item(b'{"name": "ada"}') == Person("ada")
    assert conversion.decode_result(b'{"value": null}') is None
    with pytest.raises(WrongResult, match="an item is not what its annotation says"):
        conversion.decode_item(b"5")


def three(a: int, b: int = 2, *, c: int = 3) -> None: ...


THREE = Conversion("m.three", three)


@given(
    st.lists(st.integers(-(2**63), 2**63), max_size=4).map(tuple),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)),
)
def test_call_is_taken_as_python_takes_it(args: tuple[int, ...], kwargs: dict[str, int]) -> None:
    try:
        bound = THREE.signature.bind(*args, **kwargs)
    except TypeError as error:
        with pytest.raises(WrongArguments, match=re.escape(str(error))):
            THREE.encode(args, kwargs)
    else:
        found, named = THREE.decode(THREE.encode(args, kwargs))
        assert THREE.signature.bind(*found, **named) == bound
