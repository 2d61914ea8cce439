"""Users as programs and configurations name them."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from triomq import Permission, User, UserLimits, open_broker
from triomq.app.users import closing_reasons, records_of
from triomq.errors import ConfigError
from triomq.security import ALL, UserChanges, make_verifier
from triomq.security.verifiers import LEAST_ITERATIONS

VERIFIER = str(make_verifier(b"secret", iterations=LEAST_ITERATIONS))


def test_password_alone_makes_an_administrator() -> None:
    (by_text,), (by_record,) = records_of({"ada": "secret"}), records_of({"ada": User("secret")})
    assert by_text == by_record
    assert by_record.permissions == {"*": ALL}
    assert by_record.may_monitor


def test_user_with_permissions_has_those_and_its_own_tags() -> None:
    (record,) = records_of({"ada": User("secret", permissions={"shop": Permission(read="^a")}, tags=("monitoring",))})
    assert record.permissions == {"shop": Permission("", "", "^a")}
    assert record.tags == ("monitoring",)


def test_user_from_toml_is_the_same() -> None:
    text = """
    [ada]
    verifiers = ["%s"]
    expires = 2030-01-02T03:04:05Z
    [ada.limits]
    connections = 5
    [ada.permissions."*"]
    write = "^out"
    [bob]
    certificate = true
    """
    users = msgspec.toml.decode(text % VERIFIER, type=dict[str, User])
    ada, bob = records_of(users)
    assert ada.expires == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    assert ada.limits == UserLimits(connections=5)
    assert ada.permissions == {"*": Permission(write="^out")}
    assert (ada.verifiers, bob.verifiers, bob.password) == ((VERIFIER,), (), None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs a password that is not empty"),
        ({"password": "a", "password_file": "b"}, "either a password or a password_file"),
        ({"password": "a", "verifiers": (VERIFIER,)}, "either verifiers or a password"),
        ({"password_file": "a", "verifiers": (VERIFIER,)}, "either verifiers or a password"),
        ({"verifiers": ("secret",)}, "found no verifier"),
    ],
)
def test_contradictory_user_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        User(**options)  # type: ignore[arg-type]


def test_key_has_one_owner() -> None:
    users = {"ada": User(curve_key="a" * 40), "bob": User("secret", curve_key="a" * 40)}
    with pytest.raises(ConfigError, match=r"users\.bob\.curve_key: it is the key of 'ada' too"):
        records_of(users)
    (record,) = records_of({"ada": users["ada"]})
    assert record.curve_key == "a" * 40
    with pytest.raises(ConfigError, match="curve_key: found 'short'"):
        User(curve_key="short")


def test_name_is_not_empty() -> None:
    with pytest.raises(ConfigError, match="without a name"):
        records_of({"": "secret"})


def test_password_from_a_file_is_read_when_the_record_is_made(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n", encoding="utf-8")
    (record,) = records_of({"ada": User(password_file=str(tmp_path / "secret"))})
    assert record.password == "from a file"
    with pytest.raises(ConfigError, match=r"users\.ada\.password_file: cannot read"):
        records_of({"ada": User(password_file=str(tmp_path / "missing"))})


def test_secrets_are_not_shown() -> None:
    for user in (User("hunter2"), User(verifiers=(VERIFIER,))):
        assert repr(user) in ("User(password=…)", "User(…)")


def test_closing_reasons_name_the_gravest_reason() -> None:
    changes = UserChanges(changed=("b",), removed=("a",), regulated=("c", "d"), ended=("a", "b", "c"))
    assert closing_reasons(changes) == {
        "a": "user 'a' was deleted",
        "b": "password of user 'b' was changed",
        "c": "permissions of user 'c' were changed",
    }


async def test_broker_takes_users_one_by_one(autojump_clock: object) -> None:
    async with open_broker(users={"ada": "1"}) as broker:
        assert broker.put_user("bob", User("2")).added == ("bob",)
        assert broker.put_user("bob", "3").changed == ("bob",)
        assert broker.remove_user("ada").removed == ("ada",)
        assert broker.context.users.names == ["bob"]


def test_tag_that_every_unlimited_user_has_is_there_once() -> None:
    (record,) = records_of({"ada": User("secret", tags=("administrator", "monitoring"))})
    assert record.tags == ("administrator", "monitoring")
