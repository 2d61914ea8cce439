"""The errors about data that does not fit."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
import pytest

from triomq.app.validation import SettingSources, build, inside, nearest
from triomq.errors import ConfigError


class Cat(msgspec.Struct, frozen=True, tag="cat", forbid_unknown_fields=True):
    lives: Annotated[int, msgspec.Meta(ge=1, le=9)] = 9


class Dog(msgspec.Struct, frozen=True, tag="dog", forbid_unknown_fields=True):
    tricks: tuple[str, ...] = ()


class Person(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    password: str = ""

    def __post_init__(self) -> None:
        if not self.password:
            raise ValueError("a person needs a password")


class Household(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pets: tuple[Cat | Dog, ...] = ()
    users: Mapping[str, Person] = {}
    mood: Literal["good", "bad"] = "good"
    names: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("x",)


def troubles(data: object) -> list[str]:
    with pytest.raises(ConfigError) as error:
        build(data, Household, SettingSources("house.toml", {"mood": "HOUSE_MOOD"}))
    return str(error.value).splitlines()


def test_data_that_fits_becomes_a_struct() -> None:
    data = {"pets": [{"type": "cat", "lives": 3}, {"type": "dog", "tricks": ["sit"]}], "mood": "bad"}
    assert build(data, Household, SettingSources("", {})) == Household((Cat(3), Dog(("sit",))), {}, "bad")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"pets": [{"type": "cat"}, {"type": "cat", "lives": "many"}]}, "pets[1].lives: found 'many', expected int"),
        ({"pets": [{"type": "cat", "lives": 10}]}, "pets[0].lives: found 10, expected int <= 9"),
        ({"pets": [{"type": "cow"}]}, "pets[0].type: found 'cow', allowed are 'cat', 'dog'"),
        ({"pets": [{"type": 1}]}, "pets[0].type: found 1, allowed are 'cat', 'dog'"),
        ({"pets": [{"lives": 1}]}, "pets[0] has no 'type', which says what it is; allowed are 'cat', 'dog'"),
        ({"pets": [{"type": "cat", "tricks": []}]}, "pets[0].tricks is not known; known are 'type', 'lives'"),
        ({"pets": [{"type": "dog", "trick": []}]}, "pets[0].trick is not known; did you mean 'tricks'?"),
        ({"pets": [{"type": "dog", "tricks": [1]}]}, "pets[0].tricks[0]: found 1, expected str"),
        ({"pets": {}}, "pets: found {}, expected array"),
        ({"pets": [5]}, "pets[0]: found 5, expected object"),
        ({"names": []}, "names: found [], expected array of length >= 1"),
        ({"users": {"a b": {}}}, 'users."a b": a person needs a password'),
    ],
)
def test_mistake_is_reported_with_place_value_and_what_is_allowed(data: object, text: str) -> None:
    assert troubles(data) == [f"house.toml: {text}"]


def test_mistakes_are_all_reported_at_once() -> None:
    assert troubles({"moody": 1, "names": "x"}) == [
        "house.toml: moody is not known; did you mean 'mood'?",
        "house.toml: names: found 'x', expected array",
    ]


def test_mistake_is_reported_with_its_source() -> None:
    assert troubles({"mood": "ugly"}) == ["HOUSE_MOOD: mood: found 'ugly', allowed are 'good', 'bad'"]


@pytest.mark.parametrize(
    "data",
    [
        {"users": {"ada": {"password": 1234567}}},
        {"users": {"ada": {"password": ["1234567"]}}},
        {"users": {"ada": "1234567"}},
        {"users": ["1234567"]},
        {"users": {"ada": {"passwort": "1234567"}}},
        {"password": "1234567"},
    ],
)
def test_values_that_may_be_passwords_are_never_shown(data: object) -> None:
    (text,) = troubles(data)
    assert "1234567" not in text


def test_long_value_is_cut() -> None:
    (text,) = troubles({"mood": "x" * 1000})
    assert len(text) < 150


def test_errors_without_a_file_are_about_the_configuration() -> None:
    assert SettingSources("", {}).name("a.b") == "the configuration"


def test_nearest_origin_counts() -> None:
    origins = SettingSources("f", {"a": "A", "a.b": "B"})
    assert [origins.name(path) for path in ("a", "a.b.c", "a.c", "a[0]", "ab")] == ["A", "B", "A", "A", "f"]


def test_paths_quote_what_is_no_plain_word() -> None:
    assert inside(inside(inside("", "users"), "a.b"), 3) == 'users."a.b"[3]'


def test_nearest_word_is_offered_or_all_are() -> None:
    assert nearest("prot", ["port", "host"]) == "did you mean 'port'?"
    assert nearest("xyz", ["port", "host"]) == "known are 'port', 'host'"
