"""Connections of HTTP: order, polls, users before bodies, and all the ways in which a request may be over."""

import ssl
from pathlib import Path
from typing import cast

import msgspec
import pytest
import trio
import trio.testing

from endpoints.test_tls import AUTHORITY, issue
from triomq.app import User
from triomq.protocols.http1 import Settings
from triomq.security import ALL

from .desk import LARGEST, Desk, Peer, open_desk


async def half_close(peer: Peer) -> None:
    await cast("trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream]", peer.stream).send_eof()


# Requests and answers


async def test_requests_are_answered_in_order(desk: Desk) -> None:
    peer = desk.connect()
    await peer.stream.send_all(b"".join(peer.encode("/echo", b"%d" % number) for number in range(100)))
    assert [await peer.answer() for _ in range(100)] == [(200, b"%d" % number) for number in range(100)]
    await desk.require_over(100)


async def test_answer_has_the_date(desk: Desk) -> None:
    peer = desk.connect()
    await peer.ask("/echo")
    assert peer.head.headers["date"].endswith(" GMT")


async def test_flood_of_small_requests_leaves_others_their_turns(desk: Desk) -> None:
    flood, quiet = desk.connect(), desk.connect()
    await flood.stream.send_all(5_000 * flood.encode("/open", Authorization=""))
    assert await quiet.ask("/echo", b"x") == (200, b"x")
    await desk.until(lambda: len(desk.over) == 5_001)


async def test_fields_of_the_endpoint_are_in_each_answer(desk: Desk) -> None:
    peer = desk.connect()
    assert (await peer.ask("/fields"))[0] == 200
    assert peer.head.headers["x-desk"] == "here"
    assert (await peer.ask("/fields", Authorization=""))[0] == 401
    assert peer.head.headers["x-desk"] == "here"


@pytest.mark.parametrize(
    ("error", "status"), [("found", 404), ("access", 403), ("limit", 429), ("actor", 503), ("conflict", 409)]
)
async def test_refusal_is_answered(desk: Desk, error: str, status: int) -> None:
    peer = desk.connect()
    assert (await peer.ask(f"/error/{error}", b"a body"))[0] == status
    assert peer.head.headers["content-type"].startswith("text/plain")
    assert await peer.ask("/echo", b"x") == (200, b"x")
    await desk.require_over(2)


async def test_what_is_no_http_is_answered_and_ends_the_connection(desk: Desk) -> None:
    peer = desk.connect()
    assert await peer.ask("/echo") == (200, b"")
    peer.encode("/never")  # what the answer is to
    await peer.stream.send_all(b"AMQP\0\0\x09\x01")
    assert (await peer.answer())[0] == 400
    assert await peer.ended()


async def test_mistake_of_the_endpoint_ends_its_connection_alone(desk: Desk) -> None:
    peer, other = desk.connect(), desk.connect()
    assert await peer.ask("/bad") == (0, b"")
    assert await other.ask("/echo", b"x") == (200, b"x")
    await desk.require_over(2)


# Who


async def test_request_names_its_user(desk: Desk) -> None:
    peer = desk.connect()
    assert await peer.ask("/") == (200, b"guest")
    assert await peer.ask("/", Authorization=f"basic {peer.basic('other')}") == (200, b"other")
    assert await peer.ask("/") == (200, b"guest")
    assert await peer.ask("/open", Authorization="") == (200, b"")


@pytest.mark.parametrize("authorization", ["", "Basic", "Basic !", "Basic Z3Vlc3Q=", "Bearer Z3Vlc3Q6Z3Vlc3Q=", "€"])
async def test_request_of_nobody_is_answered_by_401(desk: Desk, authorization: str) -> None:
    peer = desk.connect()
    if authorization == "€":
        authorization = "Basic \xe9"
    assert (await peer.ask("/", Authorization=authorization))[0] == 401
    assert peer.head.headers["www-authenticate"] == 'Basic realm="desk", charset="UTF-8"'
    assert not desk.begun


async def test_wrong_password_is_answered_before_the_body_is_read(desk: Desk) -> None:
    peer = desk.connect()
    encoded = peer.encode("/echo", bytes(1_000_000), Authorization="Basic Z3Vlc3Q6d3Jvbmc=")
    await peer.stream.send_all(encoded[:1_000])
    assert (await peer.answer())[0] == 401
    assert await peer.ended()


async def test_password_that_takes_a_while_is_worked_out_beside_others() -> None:
    async with open_desk() as (broker, desk):
        broker.put_user("slow", User(password="slow", permissions={"*": ALL}))
        peer, other = desk.connect(), desk.connect()
        slow = f"Basic {peer.basic('slow')}"
        await peer.send("/", "/echo", Authorization=slow)
        assert await other.ask("/") == (200, b"guest")
        assert [await peer.answer(), await peer.answer()] == [(200, b"slow"), (200, b"")]
        wrong = "Basic c2xvdzp3cm9uZw=="
        assert (await peer.ask("/", Authorization=wrong))[0] == 401
        await peer.send("/", Authorization=wrong)
        await peer.stream.aclose()


async def test_who_fails_too_often_is_told_when_to_try_again(desk: Desk) -> None:
    peer = desk.connect()
    wrong = "Basic Z3Vlc3Q6d3Jvbmc="
    assert [(await peer.ask("/", Authorization=wrong))[0] for _ in range(19)] == [401] * 19
    for authorization in (wrong, f"Basic {peer.basic('other')}", wrong):
        status, text = await peer.ask("/", Authorization=authorization)
        assert (status, peer.head.headers["retry-after"]) == (429, "1")
        assert text.startswith(b"too many log-ins have failed")
    assert (await peer.ask("/", Authorization=""))[0] == 401
    await trio.sleep(1)
    assert await peer.ask("/") == (200, b"guest")


async def test_user_that_is_removed_is_not_remembered() -> None:
    async with open_desk() as (broker, desk):
        peer = desk.connect()
        assert await peer.ask("/") == (200, b"guest")
        broker.remove_user("guest")
        assert (await peer.ask("/"))[0] == 401


async def test_password_from_another_machine_is_refused_without_tls(desk: Desk) -> None:
    peer = desk.connect("192.0.2.1:1234")
    assert (await peer.ask("/"))[0] == 403
    assert await peer.ended()
    assert await desk.connect("192.0.2.1:1234").ask("/open", Authorization="") == (200, b"")


# Requests that wait


async def test_poll_is_answered_from_elsewhere(desk: Desk) -> None:
    peer = desk.connect()
    await peer.send("/wait", "/echo")
    await desk.until(lambda: desk.waiting)
    (request, connection), *_ = desk.waiting.items()
    connection.answer(request, 200, b"here")
    connection.answer(request, 200, b"twice is once")
    assert [await peer.answer(), await peer.answer()] == [(200, b"here"), (200, b"")]
    await desk.require_over(2)


@pytest.mark.parametrize("behind", [(), ("/echo",)])
async def test_poll_is_over_when_its_client_goes(desk: Desk, behind: tuple[str, ...]) -> None:
    peer = desk.connect()
    await peer.send("/wait", *behind)
    await desk.until(lambda: desk.waiting)
    await peer.stream.aclose()
    await desk.require_over(1)
    await desk.until(lambda: not desk.children)


@pytest.mark.parametrize("path", ["/wait", "/stream"])
async def test_client_that_half_closes_gives_up_its_poll(desk: Desk, path: str) -> None:
    peer = desk.connect()
    await peer.send(path)
    await desk.until(lambda: desk.begun)
    await half_close(peer)
    assert await peer.ended()
    await desk.require_over(1)


async def test_poll_of_a_client_that_has_half_closed_already_is_over_at_once(desk: Desk) -> None:
    peer = desk.connect()
    await peer.send("/wait")
    await half_close(peer)
    assert await peer.ended()
    await desk.require_over(1)


async def test_client_that_half_closes_gets_the_answer_to_what_it_has_done(desk: Desk) -> None:
    peer = desk.connect()
    await peer.send("/work", "/echo")
    await half_close(peer)
    await desk.until(lambda: desk.working)
    (request, connection), *_ = desk.working.items()
    connection.answer(request, 200, b"done")
    assert [await peer.answer(), await peer.answer()] == [(200, b"done"), (200, b"")]
    assert await peer.ended()


async def test_client_that_sends_too_much_behind_a_poll_is_let_go(desk: Desk) -> None:
    peer = desk.connect()
    await peer.send("/wait")
    await desk.until(lambda: desk.waiting)
    await peer.stream.send_all(bytes(100_000))
    await desk.require_over(1)
    assert await peer.ended()


async def test_what_is_behind_a_request_that_takes_its_time_is_not_read(desk: Desk) -> None:
    peer = desk.connect()
    await peer.send("/work")
    await desk.until(lambda: desk.working)
    (request, connection), *_ = desk.working.items()
    for _ in range(100):
        await peer.stream.send_all(peer.encode("/echo", bytes(2_000)))
    await trio.testing.wait_all_tasks_blocked()
    assert connection.engine.pipelined < 200_000
    connection.answer(request, 204)
    assert [(await peer.answer())[0] for _ in range(101)] == [204, *100 * [200]]


async def test_request_that_begins_to_wait_with_too_much_behind_it_is_over(desk: Desk) -> None:
    peer = desk.connect()
    await peer.send("/work")
    await desk.until(lambda: desk.working)
    (request, connection), *_ = desk.working.items()
    await peer.stream.send_all(bytes(200_000))
    await trio.testing.wait_all_tasks_blocked()
    connection.wait(request)
    await desk.require_over(1)


# Bodies


async def test_body_in_pieces_may_be_held_back() -> None:
    async with open_desk() as (_, desk):
        desk.holds = True
        host, port = cast("tuple[str, int]", desk.addresses[0])
        peer = Peer(await trio.open_tcp_stream(host, port))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.stream.send_all, peer.encode("/pieces", bytes(LARGEST)))
            await desk.until(lambda: desk.held)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert len(desk.held) == 1
            assert max(desk.pieces) < 1_000_000
            desk.holds = False
            desk.held.pop()()
            assert await peer.answer() == (200, b"%d" % LARGEST)
        await peer.stream.aclose()


async def test_body_that_is_too_large_is_answered_unread(desk: Desk) -> None:
    peer = desk.connect()
    encoded = peer.encode("/echo", bytes(LARGEST + 1))
    await peer.stream.send_all(encoded[:1_000])
    assert (await peer.answer())[0] == 413
    await desk.require_over(1)


async def test_client_that_goes_in_the_middle_of_a_body_leaves_nothing(desk: Desk) -> None:
    peer = desk.connect()
    await peer.stream.send_all(peer.encode("/echo", bytes(1_000))[:-1])
    await desk.until(lambda: desk.begun)
    await peer.stream.aclose()
    await desk.require_over(1)
    await desk.until(lambda: not desk.children)


async def test_body_that_comes_too_slowly_ends_its_request(desk: Desk) -> None:
    peer = desk.connect()
    await peer.stream.send_all(peer.encode("/echo", bytes(1_000))[:-1])
    assert (await peer.answer())[0] == 408
    await desk.require_over(1)


# Answers in pieces, and clients that do not read


async def test_answer_in_pieces_goes_on_when_the_client_has_read(desk: Desk) -> None:
    peer = desk.connect()
    await peer.send("/stream")
    await desk.until(lambda: desk.begun)
    (ref,) = desk.children.values()
    connection = ref.actor
    request = desk.begun[0]
    for _ in range(3):
        before = desk.writable
        connection.send_piece(request, b"piece")
        assert not connection.is_writable
        await desk.until(lambda before=before: desk.writable > before)
    connection.end_answer(request)
    assert await peer.answer() == (200, b"piecepiecepiece")
    await desk.require_over(1)
    assert await peer.ask("/echo", b"x") == (200, b"x")


async def test_client_that_does_not_read_is_let_go() -> None:
    async with open_desk() as (_, desk):
        host, port = cast("tuple[str, int]", desk.addresses[0])
        peer = Peer(await trio.open_tcp_stream(host, port))
        await desk.until(lambda: desk.children)
        (ref,) = desk.children.values()
        ref.actor.patience = 0.6  # of real time
        await peer.send("/large/30000000", "/wait")
        await desk.until(lambda: not desk.children)
        await desk.require_over(2)
        await trio.aclose_forcefully(peer.stream)


async def test_long_answer_may_be_the_last_and_is_read_to_its_end(jumping_time: None) -> None:
    async with open_desk() as (_, desk):
        host, port = cast("tuple[str, int]", desk.addresses[0])
        peer = Peer(await trio.open_tcp_stream(host, port))
        await peer.send("/large/30000000", Connection="close")
        await desk.until(lambda: desk.over)
        for _ in range(5):
            clock = trio.lowlevel.current_clock()
            assert isinstance(clock, trio.testing.MockClock)
            clock.jump(10)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await peer.read()
        assert await peer.answer() == (200, bytes(30_000_000))
        assert await peer.ended()
        await trio.aclose_forcefully(peer.stream)


# The end


async def test_drain_answers_polls_and_waits_for_work(virtual_time: None) -> None:
    async with open_desk() as (broker, desk), trio.open_nursery() as nursery:
        polls, worker, idle, stream = [desk.connect() for _ in range(20)], *(desk.connect() for _ in range(3))
        for poll in polls:
            await poll.send("/wait")
        await worker.send("/work", "/echo")
        await stream.send("/stream")
        assert await idle.ask("/echo") == (200, b"")
        await desk.until(lambda: len(desk.begun) == 23)
        nursery.start_soon(broker.drain)
        for poll in polls:
            assert (await poll.answer())[0] == 503
            assert poll.head.headers["retry-after"] == "1"
            assert poll.head.headers["connection"] == "close"
            assert await poll.ended()
        assert await idle.ended()
        assert await stream.answer() == (200, b"")
        (request, connection), *_ = desk.working.items()
        connection.answer(request, 200, b"done")
        assert await worker.answer() == (200, b"done")
        assert worker.head.headers["connection"] == "close"
        for peer in (*polls, worker, idle, stream):
            await peer.stream.aclose()
        await desk.require_over(23)


async def test_answer_that_was_made_in_the_same_turn_is_read_before_the_end(desk: Desk) -> None:
    peer = desk.connect()
    await peer.send("/wait")
    await desk.until(lambda: desk.waiting)
    (request, connection), *_ = desk.waiting.items()

    def answer_and_close() -> None:
        connection.answer(request, 200, b"last")
        connection.closing("bye")

    connection.ref.run_in_turn(answer_and_close)
    assert await peer.answer() == (200, b"last")
    assert await peer.ended()


async def test_drain_does_not_wait_for_a_client_that_does_not_read(jumping_time: None) -> None:
    async with open_desk(drain=0.5) as (broker, desk):
        host, port = cast("tuple[str, int]", desk.addresses[0])
        peer = Peer(await trio.open_tcp_stream(host, port))
        await peer.send("/large/30000000")
        await desk.until(lambda: desk.over)
        with trio.fail_after(60):
            await broker.drain()
        await trio.aclose_forcefully(peer.stream)


async def test_connection_without_requests_is_let_go(desk: Desk) -> None:
    peer = desk.connect()
    assert await peer.ask("/echo") == (200, b"")
    began = trio.current_time()
    assert await peer.ended()
    assert 75 <= trio.current_time() - began <= 90


# Other transports


async def test_requests_come_over_tls(tmp_path: Path) -> None:
    async with open_desk(tls=issue(tmp_path)) as (_, desk):
        context = ssl.create_default_context()
        AUTHORITY.configure_trust(context)
        host, port = cast("tuple[str, int]", desk.addresses[0])
        tcp = await trio.open_tcp_stream(host, port)
        peer = Peer(trio.SSLStream(tcp, context, server_hostname="localhost", https_compatible=True))
        assert await peer.ask("/echo", bytes(1_000_000)) == (200, bytes(1_000_000))
        await peer.send("/wait")
        await desk.until(lambda: desk.waiting)
        await trio.aclose_forcefully(tcp)
        await desk.require_over(2)


async def test_user_may_be_the_one_whose_name_is_in_the_certificate(tmp_path: Path) -> None:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "authority.pem")
    tls = msgspec.structs.replace(issue(tmp_path), client_ca=str(tmp_path / "authority.pem"))
    async with open_desk(tls=tls) as (_, desk):
        host, port = cast("tuple[str, int]", desk.addresses[0])
        for name, user in (("guest", "guest"), ("nobody", None), (None, None)):
            context = ssl.create_default_context()
            AUTHORITY.configure_trust(context)
            if name is not None:
                AUTHORITY.issue_cert("x.example.org", common_name=name).configure_cert(context)
            tcp = await trio.open_tcp_stream(host, port)
            async with trio.SSLStream(tcp, context, server_hostname="localhost", https_compatible=True) as stream:
                peer = Peer(stream)
                status, body = await peer.ask("/", Authorization="")
                assert (status, body) == (200, b"guest") if user else status == 401
                assert await peer.ask("/", Authorization=f"Basic {peer.basic('other')}") == (200, b"other")


async def test_requests_come_over_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "http")
    async with open_desk(path=path) as (_, desk):
        peer = Peer(await trio.open_unix_socket(path))
        assert await peer.ask("/echo", bytes(1_000_000)) == (200, bytes(1_000_000))
        await peer.send("/wait")
        await desk.until(lambda: desk.waiting)
        await peer.stream.aclose()
        await desk.require_over(2)


async def test_limits_are_the_endpoints(virtual_time: None) -> None:
    async with open_desk(Settings(max_fields=2)) as (_, desk):
        peer = desk.connect()
        assert (await peer.ask("/"))[0] == 431


async def test_client_that_reads_nothing_has_only_some_of_its_pipelined_requests_handled(desk: Desk) -> None:
    peer, other = desk.connect(), desk.connect()
    await peer.send(*["/large/3000000"] * 50)
    for _ in range(10):
        assert await other.ask("/echo", b"x") == (200, b"x")
    assert len(desk.begun) <= 10 + 4
    assert [(await peer.answer())[0] for _ in range(50)] == [200] * 50
    await desk.require_over(60)


async def test_pipelined_requests_share_turns_by_what_their_answers_cost(desk: Desk) -> None:
    flood, quiet = desk.connect(), desk.connect()
    await flood.stream.send_all(b"".join(flood.encode("/large/30000") for _ in range(200)))
    assert await quiet.ask("/echo", b"x") == (200, b"x")
    assert len(desk.begun) < 100
    assert [(await flood.answer())[0] for _ in range(200)] == [200] * 200
