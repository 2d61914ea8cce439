"""A server's side of a control session: golden dialogues, arguments, order."""

from typing import Any

import pytest

from protocols.mtl.wire import MECHANISMS, OPEN, PROFILES, ask, asked, replies, session
from triomq.errors import LocalProtocolError
from triomq.protocols.mtl import (
    AuthorizeReceived,
    CloseReceived,
    CommandReceived,
    DataLeaseAsked,
    IllFormed,
    LeaseReleased,
    MTLControlServer,
    MTLSettings,
    OpenReceived,
    ProfileChosen,
)

READER = {"resources": ["a", "b", "a"], "confirm": "full"}


def test_dialogue_of_the_specification() -> None:
    engine = MTLControlServer(MECHANISMS)
    assert engine.receive(asked("Connection.Open", OPEN)) == OpenReceived("test-env")
    engine.require_login()
    assert engine.receive(asked("Connection.Authorize", {"mechanism": "plain", "response": "AGEAYg=="})) == (
        AuthorizeReceived("PLAIN", b"\0a\0b", True)
    )
    engine.challenge(b"why?")
    assert engine.receive(asked("Connection.Authorize", {"mechanism": "PLAIN", "response": ""})) == (
        AuthorizeReceived("PLAIN", b"", False)
    )
    engine.ready(PROFILES)
    assert engine.receive(asked("Connection.Profile", {"profile": "TEST"})) == ProfileChosen("test")
    engine.done()
    assert engine.profile == "test"
    assert engine.receive(asked("Connection.Writer", READER)) == DataLeaseAsked("writer", ("a", "b"), "full", 0)
    engine.grant_lease("token", 5976)
    assert engine.receive(asked("Connection.Reader", READER | {"prefetch": 7})) == (
        DataLeaseAsked("reader", ("a", "b"), "full", 7)
    )
    engine.refuse(501)
    assert engine.receive(asked("Connection.Writer", READER | {"lease": "token"})) == (
        DataLeaseAsked("writer", ("a", "b"), "full", 0, "token")
    )
    engine.grant_lease("token", 5976)
    assert engine.receive(asked("Connection.Release", {"lease": "token"})) == LeaseReleased("token")
    engine.done()
    assert engine.receive(asked("Queue.CREATE", {"name": "q"})) == CommandReceived("queue.create", {"name": "q"})
    engine.done({"created": True})
    assert engine.receive(asked("Connection.Close")) == CloseReceived()
    engine.done()
    assert engine.messages_to_send() == [
        (b"401", b'{"status":"Unauthorized","mechanisms":["PLAIN","SCRAM-SHA-256"]}'),
        (b"402", b'{"status":"Challenged","mechanism":"PLAIN","challenge":"d2h5Pw=="}'),
        (b"201", b'{"status":"Ready","profiles":["test","queue"]}'),
        (b"200", b'{"status":"OK"}'),
        (b"202", b'{"status":"Data Lease","port":5976,"lease":"token"}'),
        (b"501", b'{"status":"Not implemented"}'),
        (b"202", b'{"status":"Data Lease","port":5976,"lease":"token"}'),
        (b"200", b'{"status":"OK"}'),
        (b"200", b'{"status":"OK","created":true}'),
        (b"200", b'{"status":"OK"}'),
    ]
    assert (engine.state, engine.profile) == ("unknown", "")


def test_client_that_need_not_log_in_is_ready_at_once() -> None:
    engine = MTLControlServer()
    engine.receive(asked("Connection.Open", OPEN))
    engine.ready(["test"])
    assert (engine.state, replies(engine)[0][0]) == ("ready", 201)


def test_endpoint_stands_beside_the_port_where_there_is_one() -> None:
    engine = session()
    engine.receive(asked("Connection.Reader", READER))
    engine.grant_lease("token", 0, "ipc:///run/mtl")
    assert replies(engine)[0][1] == {"status": "Data Lease", "port": 0, "lease": "token", "endpoint": "ipc:///run/mtl"}


def test_host_that_is_not_named_is_the_default_one() -> None:
    assert ask(session("unknown"), "Connection.Open", {"protocol": {"name": "MTL", "version": 1}}) == OpenReceived("/")


def test_keys_that_nobody_knows_are_passed_over() -> None:
    body = {"protocol": {"name": "MTL", "version": 1, "x": 1}, "virtual-host": "v", "y": [2]}
    assert ask(session("unknown"), "Connection.Open", body) == OpenReceived("v")


WRONG: list[tuple[str, dict[str, Any], int]] = [
    ("Connection.Open", {}, 400),
    ("Connection.Open", {"protocol": "MTL"}, 400),
    ("Connection.Open", {"protocol": {"name": "AMQP", "version": 1}}, 400),
    ("Connection.Open", {"protocol": {"name": "MTL"}}, 400),
    ("Connection.Open", {"protocol": {"name": "MTL", "version": "1"}}, 400),
    ("Connection.Open", {"protocol": {"name": "MTL", "version": True}}, 400),
    ("Connection.Open", {"protocol": {"name": "MTL", "version": 1.0}}, 400),
    ("Connection.Open", {"protocol": {"name": "MTL", "version": 2}}, 505),
    ("Connection.Open", {"protocol": {"name": "MTL", "version": 1}, "virtual-host": None}, 400),
    ("Connection.Open", {"protocol": {"name": "MTL", "version": 1}, "virtual-host": "x" * 256}, 400),
    ("Connection.Open", {"protocol": {"name": "MTL", "version": 1}, "virtual-host": "a\nb"}, 400),
    ("Connection.Authorize", {}, 400),
    ("Connection.Authorize", {"mechanism": 7}, 400),
    ("Connection.Authorize", {"mechanism": "EXTERNAL"}, 401),
    ("Connection.Authorize", {"mechanism": "PLAIN", "response": 7}, 400),
    ("Connection.Authorize", {"mechanism": "PLAIN", "response": "A"}, 400),
    ("Connection.Authorize", {"mechanism": "PLAIN", "response": "AAAA\n"}, 400),
    ("Connection.Authorize", {"mechanism": "PLAIN", "response": "ÄÄÄÄ"}, 400),
    ("Connection.Authorize", {"mechanism": "PLAIN", "response": "AAAA" * 2731}, 400),
    ("Connection.Profile", {}, 400),
    ("Connection.Profile", {"profile": None}, 400),
    ("Connection.Profile", {"profile": "restms"}, 400),
    ("Connection.Reader", {}, 400),
    ("Connection.Reader", {"resources": "a"}, 400),
    ("Connection.Reader", {"resources": [1]}, 400),
    ("Connection.Reader", {"resources": [""]}, 400),
    ("Connection.Reader", {"resources": ["x" * 256]}, 400),
    ("Connection.Reader", {"resources": ["a\x7f"]}, 400),
    ("Connection.Reader", {"resources": [str(number) for number in range(1025)]}, 400),
    ("Connection.Writer", {"resources": [], "confirm": "sometimes"}, 400),
    ("Connection.Writer", {"resources": [], "confirm": "Full"}, 400),
    ("Connection.Writer", {"resources": [], "confirm": None}, 400),
    ("Connection.Writer", {"resources": [], "confirm": ["full"]}, 400),
    ("Connection.Writer", {"resources": [], "prefetch": -1}, 400),
    ("Connection.Writer", {"resources": [], "prefetch": 70_000}, 400),
    ("Connection.Writer", {"resources": [], "prefetch": True}, 400),
    ("Connection.Writer", {"resources": [], "lease": 7}, 400),
    ("Connection.Release", {}, 400),
    ("Connection.Release", {"lease": None}, 400),
    ("Connection.Unknown", {}, 501),
    ("Queue", {}, 501),
    ("Queue.Create.Now", {}, 501),
]


@pytest.mark.parametrize(("name", "arguments", "code"), WRONG)
def test_wrong_argument_is_answered_and_named(name: str, arguments: dict[str, Any], code: int) -> None:
    engine = session()
    assert engine.receive(asked(name, arguments)) is None
    ((found, fields),) = replies(engine)
    assert found == code
    assert ("mechanisms" if code == 401 else "reason") in fields
    assert len(str(fields)) < 500
    assert fields.get("version", 1) == 1


@pytest.mark.parametrize(("name", "code"), [("Queue.Create", 400), ("Connection.Reader", 400), ("Queue", 501)])
def test_command_before_a_profile_is_chosen_is_told_from_one_that_there_is_not(name: str, code: int) -> None:
    assert ask(session("ready"), name, READER) == code
    assert ask(session("ready"), "Connection.Unknown") == 501


def test_confirm_is_none_where_it_is_not_said() -> None:
    assert ask(session(), "Connection.Reader", {"resources": []}) == DataLeaseAsked("reader", (), "none", 0)


def test_response_that_is_absent_or_null_is_not_an_empty_one() -> None:
    for arguments in ({"mechanism": "PLAIN"}, {"mechanism": "PLAIN", "response": None}):
        assert ask(session("guest"), "Connection.Authorize", arguments) == AuthorizeReceived("PLAIN", None, True)


def test_dialogue_begins_anew_with_another_mechanism_and_after_each_answer_that_ends_it() -> None:
    engine = session("challenged")
    other = ask(engine, "Connection.Authorize", {"mechanism": "SCRAM-SHA-256"})
    assert other == AuthorizeReceived("SCRAM-SHA-256", None, True)
    engine.challenge(b"")
    replies(engine)
    assert ask(engine, "Connection.Authorize", {"mechanism": "SCRAM-SHA-256", "response": "!"}) == 400
    assert (engine.state, engine.mechanism) == ("guest", "")


def test_login_that_is_wrong_in_form_takes_no_login_away() -> None:
    engine = session()
    assert ask(engine, "Connection.Authorize", {"mechanism": "PLAIN", "response": "!"}) == 400
    assert engine.state == "working"
    assert ask(engine, "Connection.Authorize", {"mechanism": "EXTERNAL"}) == 401
    assert (engine.state, engine.profile) == ("guest", "")


def test_open_begins_the_session_anew_even_if_it_is_refused() -> None:
    engine = session()
    assert ask(engine, "Connection.Open", {}) == 400
    assert (engine.state, engine.profile) == ("unknown", "")


def test_profile_may_be_chosen_again() -> None:
    engine = session()
    assert ask(engine, "Connection.Profile", {"profile": "queue"}) == ProfileChosen("queue")
    engine.refuse(503, "not now")
    assert (engine.profile, replies(engine)[0][0]) == ("test", 503)
    ask(engine, "Connection.Profile", {"profile": "queue"})
    engine.done()
    assert engine.profile == "queue"


def test_refusal_says_why_and_what_else_there_is() -> None:
    engine = session()
    ask_it = asked("Queue.Create", {})
    engine.receive(ask_it)
    engine.refuse(409, "the queue is durable", {"durable": True})
    assert replies(engine) == [
        (409, {"status": "Conflict", "reason": "the queue is durable", "durable": True}),
    ]
    for code in (200, 401, 402):
        engine.receive(ask_it)
        with pytest.raises(LocalProtocolError, match="is no refusal"):
            engine.refuse(code)
        engine.put_back(keep=False)


# Order


def test_commands_are_answered_one_after_the_other_in_their_envelopes() -> None:
    engine = session()
    for number in (b"1", b"2", b"3"):
        engine.receive(asked("Queue.Create", {"name": number.decode()}, number, b""))
    engine.done({"first": True})
    assert engine.next_event() == CommandReceived("queue.create", {"name": "2"})
    assert engine.next_event() is None  # it is not answered
    engine.done()
    assert engine.next_event() == CommandReceived("queue.create", {"name": "3"})
    engine.done()
    assert engine.next_event() is None
    assert [frames[:3] for frames in engine.messages_to_send()] == [
        (number, b"", b"200") for number in (b"1", b"2", b"3")
    ]


def test_command_that_waits_is_judged_in_the_state_that_it_finds() -> None:
    engine = session("guest")
    engine.receive(asked("Connection.Authorize", {"mechanism": "PLAIN"}))
    for command in ("Queue.Create", "Connection.Close"):
        assert engine.receive(asked(command)) is None
    engine.require_login()
    assert engine.next_event() == CloseReceived()
    assert [code for code, _ in replies(engine)] == [401, 401]


def test_too_many_that_wait_are_dropped() -> None:
    engine = session(settings=MTLSettings(most_waiting=2))
    found = [engine.receive(asked("Queue.List")) for _ in range(5)]
    assert found == [CommandReceived("queue.list", {}), None, None, IllFormed("too-many"), IllFormed("too-many")]


@pytest.mark.parametrize("keep", [False, True])
def test_command_that_was_put_back_comes_again_before_those_behind_it(keep: bool) -> None:
    engine = session()
    first = engine.receive(asked("Queue.Create"))
    engine.receive(asked("Queue.List"))
    engine.put_back(keep=keep)
    assert (engine.next_event() if keep else engine.receive(asked("Queue.Create"))) == first
    engine.done()
    assert engine.next_event() == CommandReceived("queue.list", {})
    engine.put_back(keep=False)
    engine.put_back(keep=True)
    assert engine.next_event() is None


def test_answer_that_nobody_waits_for_is_our_own_mistake() -> None:
    engine = session()
    for answer in (engine.done, engine.require_login, lambda: engine.challenge(b"")):
        with pytest.raises(LocalProtocolError, match="no command"):
            answer()


@pytest.mark.parametrize(("name", "arguments"), [("Queue.Create", {}), ("Connection.Profile", {"profile": "queue"})])
def test_command_whose_login_expires_meanwhile_is_answered_and_nothing_else_is(
    name: str, arguments: dict[str, Any]
) -> None:
    engine = session()
    engine.receive(asked(name, arguments))
    engine.expire()
    engine.done()
    assert (replies(engine)[0][0], engine.state, engine.profile) == (200, "guest", "")


def test_reason_may_have_anything_in_it() -> None:
    engine = session()
    engine.receive(asked("Queue.Create"))
    engine.refuse(404, "\udcff is not there")
    assert replies(engine) == [(404, {"status": "Not Found", "reason": "? is not there"})]


def test_answer_that_cannot_be_written_leaves_the_command_unanswered() -> None:
    engine = session()
    engine.receive(asked("Queue.Create"))
    with pytest.raises(LocalProtocolError, match="JSON"):
        engine.done({"x": object()})
    engine.refuse(500)
    assert [code for code, _ in replies(engine)] == [500]


def test_representations_show_no_secret() -> None:
    for event in (
        AuthorizeReceived("PLAIN", b"secret", True),
        LeaseReleased("secret"),
        DataLeaseAsked("reader", (), "none", 0, "secret"),
    ):
        assert "secret" not in repr(event)
