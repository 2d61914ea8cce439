"""What the parts of an engine share: states by the table, and the ways to end."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp import (
    AMQP_METHODS,
    Closed,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    Failed,
    Settings,
)
from triomq.protocols.amqp.codes import PeerError
from triomq.protocols.amqp.core import Core

from .wire import methods_in


def core(state: str = "running") -> Core:
    made = Core("server", 0.0, Settings(), AMQP_METHODS)
    made.state = state  # type: ignore[assignment]  # one of them
    return made


def waiting(of: Core) -> list[object]:
    return [method for _, method in methods_in(b"".join(of.outbox.take()))]


def test_state_moves_only_by_the_table() -> None:
    made = core("tuning")
    assert not made.move("received connection.open")
    assert made.state == "tuning"
    assert made.move("received connection.tune-ok")
    assert made.state == "opening"


def test_method_that_the_table_does_not_have_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be sent by a server in state tuning"):
        core("tuning").send_control("connection.blocked", ConnectionBlocked("memory"))


def test_method_that_comes_too_late_is_not_sent() -> None:
    for state in ("closing", "closed"):
        made = core(state)
        made.send_control("connection.blocked", ConnectionBlocked("memory"))
        assert waiting(made) == []


def test_failure_reaches_both_sides() -> None:
    made = core()
    made.fail(PeerError(502, "no table", 50, 10))
    assert made.events == [Failed(502, "SYNTAX_ERROR - no table", 50, 10)]
    assert waiting(made) == [ConnectionClose(502, "SYNTAX_ERROR - no table", 50, 10)]
    assert made.state == "closing"


def test_our_close_ends_with_what_we_said() -> None:
    made = core()
    made.send_close(320, "stop", 0, 0)
    made.end_closed()
    assert made.events == [Closed(320, "CONNECTION_FORCED - stop", by_peer=False)]
    assert made.timers.next() is None


def test_client_s_close_waits_for_the_endpoint_and_ends_the_connection() -> None:
    made = core("ending")  # where the table says that the method leads
    made.closed_by_peer(ConnectionClose(200, "bye"))
    assert made.events == [Closed(200, "bye", by_peer=True)]
    assert waiting(made) == []
    assert not made.over
    made.send_control("connection.close-ok", ConnectionCloseOk())
    assert waiting(made) == [ConnectionCloseOk()]
    assert made.over


def test_server_s_close_is_answered_at_once() -> None:
    made = Core("client", 0.0, Settings(), AMQP_METHODS)
    made.state = "running"
    made.closed_by_peer(ConnectionClose(200, "bye"))
    assert waiting(made) == [ConnectionCloseOk()]
    assert made.over
