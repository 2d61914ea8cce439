"""SASL responses: what they say, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import RemoteProtocolError
from triomq.protocols import decode_table, encode_table
from triomq.security import (
    Accepted,
    AMQPlain,
    Challenge,
    Credentials,
    Denied,
    External,
    Pending,
    Plain,
    UserRecord,
    Users,
    make_verifier,
    read_amqplain,
    read_plain,
)


def decode(table: bytes) -> dict[str, object]:
    return dict(decode_table(len(table).to_bytes(4, "big") + table))


def amqplain(**fields: object) -> bytes:
    return encode_table(fields)[4:]  # type: ignore[arg-type]


def test_plain_is_a_name_and_a_password_between_nulls() -> None:
    assert read_plain(b"\0ada\0secret") == Credentials("ada", b"secret")


def test_plain_may_name_the_same_user_twice_but_no_other() -> None:
    assert read_plain(b"ada\0ada\0secret") == Credentials("ada", b"secret")
    assert read_plain(b"bob\0ada\0secret") is None


@pytest.mark.parametrize("response", [b"", b"ada", b"\0ada", b"\0ada\0se\0cret"])
def test_response_without_two_nuls_is_not_plain(response: bytes) -> None:
    assert read_plain(response) is None


def test_names_and_passwords_may_be_empty_or_no_text() -> None:
    assert read_plain(b"\0\0") == Credentials("", b"")
    assert read_plain(b"\0\xff\0\xfe") == Credentials("\udcff", b"\xfe")


def test_amqplain_is_a_table_with_a_login_and_a_password() -> None:
    assert read_amqplain(amqplain(LOGIN="ada", PASSWORD="secret"), decode) == Credentials("ada", b"secret")
    assert read_amqplain(amqplain(LOGIN="ada", PASSWORD=b"\xff"), decode) == Credentials("ada", b"\xff")


@pytest.mark.parametrize(
    "response",
    [b"x", amqplain(), amqplain(LOGIN="ada"), amqplain(PASSWORD="x"), amqplain(LOGIN=1, PASSWORD="x")],
    ids=["no table", "empty", "no password", "no login", "a number"],
)
def test_response_without_the_table_is_not_amqplain(response: bytes) -> None:
    assert read_amqplain(response, decode) is None


def test_table_that_cannot_be_read_is_not_amqplain() -> None:
    def fail(table: bytes) -> dict[str, object]:
        raise RemoteProtocolError("no")

    assert read_amqplain(b"", fail) is None


@given(st.binary(max_size=80))
def test_any_octets_are_credentials_or_none(response: bytes) -> None:
    for found in (read_plain(response), read_amqplain(response, decode)):
        assert found is None or isinstance(found, Credentials)


def test_password_is_not_shown() -> None:
    assert "secret" not in repr(read_plain(b"\0ada\0secret"))


# Steps

USERS = Users({"ada": "secret"})


def test_plain_knows_its_users_by_their_passwords() -> None:
    assert Plain(USERS).first(b"\0ada\0secret") == Accepted("ada")
    assert Plain(USERS).first(b"\0ada\0wrong") == Denied("ada")
    assert Plain(USERS).first(b"nonsense") == Denied("")


def test_client_that_begins_plain_with_nothing_is_asked_once() -> None:
    mechanism = Plain(USERS)
    assert mechanism.first(b"") == Challenge(b"")
    assert mechanism.next(b"\0ada\0secret") == Accepted("ada")
    assert mechanism.next(b"") == Denied("")


def test_amqplain_asks_nothing() -> None:
    mechanism = AMQPlain(USERS, decode)
    assert mechanism.first(amqplain(LOGIN="ada", PASSWORD="secret")) == Accepted("ada")
    assert mechanism.first(amqplain(LOGIN="ada", PASSWORD="wrong")) == Denied("ada")
    assert mechanism.next(amqplain(LOGIN="ada", PASSWORD="secret")) == Denied("")


def test_slow_check_is_pending() -> None:
    users = Users([UserRecord(name="ada", verifiers=(str(make_verifier(b"secret", iterations=4096)),))])
    step = Plain(users).first(b"\0ada\0secret")
    assert isinstance(step, Pending)
    assert "secret" not in repr(step)
    assert step.work() == Accepted("ada")
    assert Plain(users).first(b"\0ada\0secret") == Accepted("ada")
    wrong = AMQPlain(users, decode).first(amqplain(LOGIN="ada", PASSWORD="wrong"))
    assert isinstance(wrong, Pending)
    assert wrong.work() == Denied("ada")


@pytest.mark.parametrize("response", [b"", b"ada", b"\0", b" "])
def test_external_believes_the_transport(response: bytes) -> None:
    assert External(USERS, "ada").first(response) == Accepted("ada")
    assert External(USERS, "eve").first(response) == Denied("eve")


def test_external_is_no_other_name() -> None:
    mechanism = External(Users({"ada": "x", "bob": "y"}), "ada")
    assert mechanism.first(b"bob") == Denied("ada")
    assert mechanism.first(b"\xff") == Denied("ada")
    assert mechanism.next(b"") == Denied("ada")
