"""SCRAM, with a client of the library that serves us."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient, ScramException

from triomq.security import Accepted, Challenge, Denied, Pending, Scram, Step, UserRecord, Users, make_verifier
from triomq.security.verifiers import LEAST_ITERATIONS

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
VERIFIERS = tuple(str(make_verifier(b"secret", mechanism=name, iterations=LEAST_ITERATIONS)) for name in MECHANISMS)
USERS = Users(
    [UserRecord(name="ada", verifiers=VERIFIERS), UserRecord(name="bob", password="secret")],
    iterations=LEAST_ITERATIONS,
)


def asked(step: Step) -> str:
    while isinstance(step, Pending):
        step = step.work()
    assert isinstance(step, Challenge), step
    return step.challenge.decode()


def log_in(name: str, password: str, mechanism: str, users: Users = USERS) -> Step:
    """Go through a whole log-in; the client checks the server's proof."""
    client, server = ScramClient([mechanism], name, password), Scram(users, mechanism)
    client.set_server_first(asked(server.first(client.get_client_first().encode())))
    step = server.next(client.get_client_final().encode())
    if isinstance(step, Challenge):
        client.set_server_final(asked(step))
        step = server.next(b"")
    return step


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["ada", "bob"])
def test_password_is_proved_and_not_sent(name: str, mechanism: str) -> None:
    assert log_in(name, "secret", mechanism) == Accepted(name)
    assert log_in(name, "wrong", mechanism) == Denied(name)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_unknown_user_fails_as_late_as_a_wrong_password(mechanism: str) -> None:
    client, server = ScramClient([mechanism], "eve", "secret"), Scram(USERS, mechanism)
    first = asked(server.first(client.get_client_first().encode()))
    client.set_server_first(first)
    assert server.next(client.get_client_final().encode()) == Denied("eve")
    again = ScramClient([mechanism], "eve", "secret")
    second = asked(Scram(USERS, mechanism).first(again.get_client_first().encode()))
    assert first.split(",")[1:] == second.split(",")[1:]  # salt and iterations stay


def test_password_that_the_program_knows_is_worked_out_once() -> None:
    users = Users({"bob": "secret"}, iterations=LEAST_ITERATIONS)
    client = ScramClient(["SCRAM-SHA-256"], "bob", "secret").get_client_first().encode()
    assert isinstance(Scram(users, "SCRAM-SHA-256").first(client), Pending)
    assert log_in("bob", "secret", "SCRAM-SHA-256", users) == Accepted("bob")
    assert isinstance(Scram(users, "SCRAM-SHA-256").first(client), Challenge)


def test_client_that_waits_to_be_asked_is_asked() -> None:
    server = Scram(USERS, "SCRAM-SHA-256")
    assert server.first(b"") == Challenge(b"")
    client = ScramClient(["SCRAM-SHA-256"], "ada", "secret")
    assert isinstance(server.next(client.get_client_first().encode()), Challenge)


def test_proof_is_good_for_one_dialogue() -> None:
    client, server = ScramClient(["SCRAM-SHA-256"], "ada", "secret"), Scram(USERS, "SCRAM-SHA-256")
    client.set_server_first(asked(server.first(client.get_client_first().encode())))
    final = client.get_client_final().encode()
    other = Scram(USERS, "SCRAM-SHA-256")
    other.first(ScramClient(["SCRAM-SHA-256"], "ada", "secret").get_client_first().encode())
    assert other.next(final) == Denied("ada")


def test_response_after_the_servers_proof_is_denied() -> None:
    client, server = ScramClient(["SCRAM-SHA-256"], "ada", "secret"), Scram(USERS, "SCRAM-SHA-256")
    client.set_server_first(asked(server.first(client.get_client_first().encode())))
    server.next(client.get_client_final().encode())
    assert server.next(b"more") == Denied("ada")


def test_user_that_goes_meanwhile_is_denied() -> None:
    users = Users([UserRecord(name="ada", verifiers=VERIFIERS)])
    client, server = ScramClient(["SCRAM-SHA-256"], "ada", "secret"), Scram(users, "SCRAM-SHA-256")
    client.set_server_first(asked(server.first(client.get_client_first().encode())))
    users.remove("ada")
    assert server.next(client.get_client_final().encode()) == Denied("ada")


def test_the_server_proves_itself() -> None:
    client, server = ScramClient(["SCRAM-SHA-256"], "ada", "secret"), Scram(USERS, "SCRAM-SHA-256")
    client.set_server_first(asked(server.first(client.get_client_first().encode())))
    client.get_client_final()
    with pytest.raises(ScramException):
        client.set_server_final("v=AAAA")


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_octets_are_answered(first: bytes, second: bytes) -> None:
    for beginning in (first, b"n,,n=ada,r=" + first, b"n,,n=" + first + b",r=abc"):
        server = Scram(USERS, "SCRAM-SHA-256")
        if isinstance(server.first(beginning), Challenge):
            assert isinstance(server.next(second), Denied | Challenge)
        server = Scram(USERS, "SCRAM-SHA-256")
        server.first(b"n,,n=ada,r=abc")
        assert isinstance(server.next(b"c=biws,r=" + second), Denied)
