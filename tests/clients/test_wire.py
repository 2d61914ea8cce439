"""The blocking socket: how it ends, and what it says then."""

import socket
from pathlib import Path

import pytest

from clients.peer import HungUp, open_peer, open_speaker, silent
from triomq.clients import AMQPUrl, open_blocking, parse_amqp_url
from triomq.clients.wire import BlockingWire
from triomq.errors import AccessRefused, Disconnected, NotFound, RemoteProtocolError
from triomq.protocols.amqp import AMQPEngine, Connected, Event, QueueDeclare, QueueDeclareOk


def test_it_connects_and_knows_whom_to(url: str) -> None:
    wire = BlockingWire(parse_amqp_url(f"{url}/?frame_max=5000&heartbeat=7"))
    assert isinstance(wire.server, Connected)
    assert (wire.server.frame_max, wire.server.heartbeat) == (5000, 7)
    assert wire.server.server_properties["product"] == "triomq"
    wire.close()


def test_where_nobody_listens_it_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Disconnected, match=rf"127\.0\.0\.1:{port}: Connection refused; see whether it runs there"):
        open_blocking(f"amqp://127.0.0.1:{port}")
    with pytest.raises(Disconnected, match=r"/nowhere/triomq\.sock: No such file"):
        open_blocking("amqp+unix:///nowhere/triomq.sock")


@pytest.mark.parametrize(("user", "place"), [("guest:wrong", ""), ("guest:guest", "/nope")])
def test_who_may_not_enter_is_told(url: str, user: str, place: str) -> None:
    with pytest.raises(AccessRefused, match=r"^(403 ACCESS_REFUSED|530 NOT_ALLOWED) - "):
        open_blocking(url.replace("guest:guest", user) + place)


def test_a_peer_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = AMQPUrl(port=listener.getsockname()[1], timeout=0.05)
        with pytest.raises(Disconnected, match=r"says nothing for 0\.05 s; .* raise \?timeout="):
            open_blocking(url)


def test_a_peer_that_speaks_something_else_is_named() -> None:
    told = pytest.raises(RemoteProtocolError, match=r"127\.0\.0\.1:\d+ does not keep to AMQP 0-9-1: 501")
    with open_speaker(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url, told:
        open_blocking(url)


def test_a_peer_that_hangs_up_at_once_is_lost() -> None:
    with open_speaker(b"") as url, pytest.raises(Disconnected, match=r"closed the connection without a word|broke"):
        open_blocking(url)


def test_a_peer_that_hangs_up_later_is_lost_and_stays_lost() -> None:
    def hang_up(engine: AMQPEngine, event: Event) -> None:
        raise HungUp

    with open_peer(hang_up) as url, open_blocking(url) as connection:
        for text in ("without a word|broke", "has ended; open a new one|broke"):
            with pytest.raises(Disconnected, match=text):
                connection.call(QueueDeclare("q"), QueueDeclareOk)


def test_a_close_is_an_error_with_its_code() -> None:
    def close(engine: AMQPEngine, event: Event) -> None:
        engine.close(402, "never heard of it")

    told = pytest.raises(NotFound, match="402 INVALID_PATH - never heard of it")
    with open_peer(close) as url, open_blocking(url) as connection, told:
        connection.call(QueueDeclare("q"), QueueDeclareOk)


def test_a_peer_whose_heartbeats_stop_is_lost() -> None:
    lost = pytest.raises(Disconnected, match="has fallen silent")
    with open_peer(silent) as url, open_blocking(f"{url}&heartbeat=1") as connection, lost:
        connection.call(QueueDeclare("q"), QueueDeclareOk)


def test_a_unix_socket_is_as_good(tmp_path: Path) -> None:
    path = tmp_path / "broker.sock"
    with open_peer(silent, path=path) as url, open_blocking(url) as connection:
        assert connection.server_properties["product"] == "triomq"


def test_closing_says_goodbye_and_a_second_time_nothing() -> None:
    with open_peer(silent) as url:
        connection = open_blocking(url)
        connection.close()
        connection.close()
