"""Dealers against ROUTERs of libzmq, and eMQP's and MTL's clients over TLS and Unix sockets."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
import trustme
import zmq

from triomq import EMQP, MTL, TLS, open_broker
from triomq.clients import open_emqp, open_emqp_worker, open_mtl
from triomq.clients.dealer import Dealer, Place, dealer_settings
from triomq.errors import ConfigError

MANY = 2000
LARGE = bytes(64 * 1024)


@pytest.fixture
def router() -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        socket.rcvtimeo = 20_000
        yield socket


@pytest.fixture
async def place(router: zmq.Socket[bytes]) -> Place:
    return Place(host="127.0.0.1", port=router.bind_to_random_port("tcp://127.0.0.1"))


@pytest.fixture
async def dealer(place: Place, nursery: trio.Nursery) -> AsyncIterator[Dealer]:
    dealer = Dealer(place, dealer_settings("", "", identity=b"me"), nursery)
    with trio.fail_after(60):
        yield dealer
    await dealer.aclose()


async def heard(router: zmq.Socket[bytes]) -> list[bytes]:
    return await trio.to_thread.run_sync(router.recv_multipart)


async def test_messages_go_both_ways(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    await dealer.send([b"", b"to", LARGE])
    assert await heard(router) == [b"me", b"", b"to", LARGE]
    router.send_multipart([b"me", b"back", LARGE])
    assert await dealer.receive() == [[b"back", LARGE]]


async def test_nothing_is_taken_before_there_is_a_connection(nursery: trio.Nursery) -> None:
    with trio.socket.socket() as nobody:
        await nobody.bind(("127.0.0.1", 0))
        dealer = Dealer(Place(host="127.0.0.1", port=nobody.getsockname()[1]), dealer_settings("", ""), nursery)
        assert dealer.send_all([[b"lost"]]) == 0
        await dealer.aclose()
    with pytest.raises(trio.ClosedResourceError):
        dealer.send_nowait([b"late"])


async def test_dealer_comes_in_when_somebody_listens_at_last(nursery: trio.Nursery, tmp_path: Path) -> None:
    dealer = Dealer(Place(path=str(tmp_path / "router")), dealer_settings("", ""), nursery)
    await trio.testing.wait_all_tasks_blocked(0.05)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        socket.bind(f"ipc://{tmp_path / 'router'}")
        with trio.fail_after(60):
            await dealer.send([b"hello"])
            assert (await trio.to_thread.run_sync(socket.recv_multipart))[1:] == [b"hello"]
        await dealer.aclose()


async def test_loss_is_told_to_who_receives_and_to_who_waits_for_room(
    dealer: Dealer, router: zmq.Socket[bytes]
) -> None:
    await dealer.send([b"hello"])
    await heard(router)
    router.send_multipart([b"me", b"before"])
    assert await dealer.receive() == [[b"before"]]
    router.close()
    with pytest.raises(trio.BrokenResourceError):
        await dealer.receive()
    assert dealer.is_lost
    with pytest.raises(trio.BrokenResourceError):
        await dealer.wait_connected()


async def test_last_words_are_said_also_where_the_tasks_around_are_cancelled(
    place: Place, router: zmq.Socket[bytes]
) -> None:
    async with trio.open_nursery() as nursery:
        dealer = Dealer(place, dealer_settings("", ""), nursery)
        await dealer.wait_connected()
        nursery.cancel_scope.cancel()
        dealer.send_all([[b"last", LARGE]] * 10)
        dealer.close()
    assert [(await heard(router))[1] for _ in range(10)] == [b"last"] * 10


async def test_what_is_not_taken_holds_up_the_other_side(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    await dealer.send([b"hello"])
    await heard(router)
    router.sndhwm, router.sndtimeo = 10, 20_000
    router.router_mandatory = True

    def send() -> None:
        for _ in range(MANY):
            router.send_multipart([b"me", LARGE])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, send)
        count = most = 0
        while count < MANY:
            messages = await dealer.receive()
            count, most = count + len(messages), max(most, len(messages))
            await trio.testing.wait_all_tasks_blocked(0.002)
    assert most * len(LARGE) < 8 * 1024 * 1024


@pytest.mark.parametrize("address", ["", "tcp://", "tcp://host", "udp://host:1", "tcp://host:99999", "ipc://"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        Place.at(address)


def test_file_of_certificates_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        Place(host="h", port=1, tls=True, ca=str(tmp_path / "ca.pem")).trusted()


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    authority = trustme.CA()
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path


async def run_a_job(url: str) -> None:
    with trio.fail_after(60):
        async with open_emqp(url) as emqp, open_emqp_worker(url, ["q"]) as worker, trio.open_nursery() as nursery:
            answers = list[bytes]()

            async def ask() -> None:
                answers.append((await emqp.request("q", b"question")).message)

            nursery.start_soon(ask)
            (await anext(worker)).reply(b"answer")
        assert answers == [b"answer"]


async def test_jobs_go_over_tls(certificates: Path) -> None:
    config = EMQP(port=0, tls=TLS(str(certificates / "own.pem")))
    async with open_broker(config, drain=0.2) as broker:
        await run_a_job(f"emqps://127.0.0.1:{broker.listening[0].port}?ca={certificates / 'ca.pem'}")


async def test_jobs_go_over_a_unix_socket(tmp_path: Path) -> None:
    async with open_broker(EMQP(path=str(tmp_path / "emqp")), drain=0.2):
        await run_a_job(f"emqp+unix://{tmp_path / 'emqp'}")


async def test_contents_go_over_tls(certificates: Path) -> None:
    config = MTL(port=0, tls=TLS(str(certificates / "own.pem")))
    async with open_broker(config, drain=0.2) as broker:
        url = f"mtls://guest:guest@127.0.0.1:{broker.listening[0].port}?ca={certificates / 'ca.pem'}"
        with trio.fail_after(60):
            async with open_mtl(url) as mtl:
                await mtl.call("Queue.Create", {"name": "q"})
                async with mtl.open_writer("q") as writer, mtl.open_reader("q", prefetch=1) as reader:
                    await writer.publish(b"content")
                    with await anext(reader) as delivery:
                        assert delivery.body == b"content"
