"""A client's side of a data flow."""

import pytest

from protocols.mtl.wire import MESSAGES, TEXT_PLAIN, confirm, connected, content, reject, response, sent
from triomq.errors import LocalProtocolError
from triomq.protocols import encode_table
from triomq.protocols.mtl import (
    ConfirmRun,
    ContentRun,
    ContentsRejected,
    IllFormed,
    MTLDataClient,
    MTLSettings,
    ResponseReceived,
    content_suffix,
)

SUFFIX = content_suffix("resource", TEXT_PLAIN)


def test_lease_is_claimed_and_what_follows_need_not_wait() -> None:
    engine = MTLDataClient("reader", confirm="full", now=0.0)
    assert [engine.claim("abc123"), engine.summon("resource"), engine.dismiss("resource")] == [1, 2, 3]
    assert sent(engine) == [MESSAGES[name] for name in ("Lease", "Summon", "Dismiss")]
    assert engine.receive(response(2, 403)) == ResponseReceived(2, 403)
    assert engine.state == "claiming"
    assert engine.receive(response(1, 200)) == ResponseReceived(1, 200)
    assert engine.state == "reading"


def test_lease_that_is_refused_may_be_followed_by_another() -> None:
    engine = MTLDataClient("writer", confirm="none", now=0.0)
    engine.claim("abc123")
    assert engine.receive(response(1, 403)) == ResponseReceived(1, 403)
    assert engine.state == "unleased"
    assert engine.claim("def456") == 2


def test_lease_may_be_claimed_again_when_the_server_has_forgotten_it() -> None:
    engine = connected("writer")
    again = engine.claim("abc123")
    assert engine.state == "writing"
    engine.receive(response(again, 403))
    assert engine.state == "unleased"


def test_commands_and_contents_have_numbers_of_one_counter() -> None:
    engine = connected("writer")
    assert engine.send_contents(SUFFIX, [b"a", b"b"]) == 2
    again = engine.claim("abc123")
    assert (again, engine.send_contents(SUFFIX, [b"c"])) == (4, 5)


def test_contents_are_sent_again_under_their_numbers() -> None:
    engine = MTLDataClient("writer", confirm="full", now=0.0, next_sequence=7)
    assert engine.claim("abc123") == 7
    sent(engine)
    engine.send_again([(3, SUFFIX, b"c"), (5, SUFFIX, b"e")])
    assert sent(engine) == [content(3, b"c"), content(5, b"e")]
    assert engine.send_contents(SUFFIX, [b"h"]) == 8
    with pytest.raises(LocalProtocolError, match="sequence"):
        MTLDataClient("writer", confirm="full", now=0.0, next_sequence=0)


def test_confirms_and_rejects_reach_the_writer() -> None:
    engine = connected("writer")
    engine.send_contents(SUFFIX, [b"x"] * 5)
    assert engine.receive_run([confirm(2), confirm(4, multiple=True)], 0) == ConfirmRun(4, [2], 2)
    assert engine.receive(reject(5, recycle=True)) == ContentsRejected(5, False, True)
    assert engine.receive(confirm(7)) == IllFormed("unasked")


def test_contents_reach_the_reader_whatever_their_numbers() -> None:
    engine = connected("reader")
    run = engine.receive_run([content(1, b"a"), content(2, b"b"), content(1, b"c")], 0)
    assert isinstance(run, ContentRun)
    assert (run.resource, run.sequences, run.bodies) == ("resource", [1, 2, 1], [b"a", b"b", b"c"])
    single = engine.receive(content(9, resource=b""))
    assert isinstance(single, ContentRun)
    assert single.resource == ""


def test_server_whose_messages_are_not_read_is_not_silent() -> None:
    engine = connected("reader")
    for now in range(0, 100, 5):
        engine.heard()
        assert engine.handle_timer(float(now)) is None
    assert engine.state == "reading"


def test_contents_are_confirmed_and_rejected_by_the_reader() -> None:
    engine = connected("reader")
    engine.confirm(3, multiple=True)
    engine.reject(4, recycle=True)
    engine.reject(6, multiple=True)
    assert sent(engine) == [confirm(3, multiple=True), reject(4, recycle=True), reject(6, multiple=True)]


def test_what_a_server_never_sends_is_dropped_and_named() -> None:
    engine = connected("reader", settings=MTLSettings(max_message_size=10))
    wrong = {
        "unasked": [MESSAGES[name] for name in ("Lease", "Summon", "Dismiss")] + [confirm(1)],
        "too-long": [content(1, bytes(11))],
        "table": [content(1, table=encode_table({"content-type": 7}))],
        "sequence": [content(0)],
        "code": [(response(1, 200)[0], body) for body in (b"", b"2000", b"2x0")],
        "header": [(response(1, 200)[0] + b"x", b"200"), (b"\x02", b"200")],
    }
    for reason, messages in wrong.items():
        for message in messages:
            assert engine.receive_run([message], 0) is None
            assert engine.receive(message) == IllFormed(reason)  # type: ignore[arg-type]
