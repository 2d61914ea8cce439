"""What is kept of passwords."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.security.verifiers import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    SaltedHash,
    make_verifier,
    prepared,
    read_verifier,
)

KEYS = base64.b64encode(bytes(32)).decode()
SALT = base64.b64encode(bytes(16)).decode()


def test_verifier_of_rfc_7677_is_what_is_made_of_its_password() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    found = make_verifier(b"pencil", iterations=4096, salt=salt)
    # What PostgreSQL 16 keeps of this password with this salt.
    assert str(found) == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
        "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_verifier_is_parsed_from_its_text(mechanism: str) -> None:
    made = make_verifier(b"secret", mechanism=mechanism, iterations=LEAST_ITERATIONS)
    assert read_verifier(str(made)) == made
    assert made.matches(b"secret")
    assert not made.matches(b"Secret")
    assert made != make_verifier(b"secret", mechanism=mechanism, iterations=LEAST_ITERATIONS)


def test_hash_of_rabbitmqs_is_read_and_matched() -> None:
    # From RabbitMQ's documentation of its hashes: the password is "test12".
    found = read_verifier("RABBITMQ-SHA-256$kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    assert isinstance(found, SaltedHash)
    assert found.matches(b"test12")
    assert not found.matches(b"test13")
    assert str(found) == "RABBITMQ-SHA-256$kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_with_sha_512_too() -> None:
    octets = base64.b64encode(b"1234" + hashlib.sha512(b"1234secret").digest()).decode()
    assert read_verifier(f"RABBITMQ-SHA-512${octets}").matches(b"secret")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "SCRAM-SHA-1$4096:x$x:x",
        "SCRAM-SHA-256$",
        f"SCRAM-SHA-256$4096:{SALT}${KEYS}",
        f"SCRAM-SHA-256$4095:{SALT}${KEYS}:{KEYS}",
        f"SCRAM-SHA-256${MOST_ITERATIONS + 1}:{SALT}${KEYS}:{KEYS}",
        f"SCRAM-SHA-256$many:{SALT}${KEYS}:{KEYS}",
        f"SCRAM-SHA-256$4096:AAAA${KEYS}:{KEYS}",
        f"SCRAM-SHA-256$4096:{SALT}${SALT}:{KEYS}",
        f"SCRAM-SHA-256$4096:{SALT}${KEYS}:{SALT}",
        f"SCRAM-SHA-512$4096:{SALT}${KEYS}:{KEYS}",
        "RABBITMQ-SHA-256$AAAA",
        "RABBITMQ-SHA-256$not base 64",
        "RABBITMQ-MD5$AAAA",
    ],
)
def test_text_that_is_no_verifier_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="found no verifier") as caught:
        read_verifier(text)
    rest = text.partition("$")[2]
    assert not rest or rest not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for kind in ("", "SCRAM-SHA-256$", "SCRAM-SHA-256$4096:", "RABBITMQ-SHA-512$"):
        with pytest.raises(ValueError):
            read_verifier(kind + text)


def test_verifiers_are_not_shown() -> None:
    made = make_verifier(b"secret", iterations=LEAST_ITERATIONS)
    assert str(made).split("$")[2] not in repr(made)
    assert repr(SaltedHash("RABBITMQ-SHA-256", b"salt", b"digest")) == "SaltedHash('RABBITMQ-SHA-256', …)"


def test_passwords_are_prepared_where_they_can_be() -> None:
    assert prepared(b"plain") == b"plain"
    assert prepared("Ⅸ\u00adx".encode()) == b"IXx"  # RFC 4013 section 3
    assert prepared("\u0627x".encode()) == "\u0627x".encode()  # cannot be prepared
    assert prepared(b"\xff") == b"\xff"
