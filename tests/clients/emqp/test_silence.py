"""A client and a worker whose network breaks for them alone: the broker has their connections, and hears nothing."""

import logging
from collections.abc import AsyncIterator, Callable

import pytest
import trio

from clients.emqp.test_connection import endpoint_of
from network import Network, open_network
from triomq.app import Broker, open_broker
from triomq.clients import open_emqp, open_emqp_worker
from triomq.clients.emqp.url import parse_emqp_url
from triomq.endpoints import EMQP
from triomq.protocols.emqp import Extension, make_headers

SURE = make_headers(reply_requested=True, guarantee=True)

BREAKS = pytest.mark.parametrize(
    "breaks", [Network.break_for_clients, Network.fall_silent], ids=["half-open", "black hole"]
)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    with trio.fail_after(60):
        async with open_broker(EMQP(port=0, heartbeat=0.2, silence=30.0), drain=0.2) as broker:
            await broker.declare_queue("q", durable=False)
            yield broker


@pytest.fixture
async def network(broker: Broker) -> AsyncIterator[Network]:
    with open_network(endpoint_of(broker).listener.port) as network:
        yield network


def url_of(network: Network) -> str:
    return f"emqp://{network.host}:{network.port}?heartbeat=0.2&silence=0.6"


@BREAKS
async def test_job_goes_on_with_its_worker_and_its_answer_finds_its_requester(
    broker: Broker, network: Network, breaks: Callable[[Network], None]
) -> None:
    url = url_of(network)
    async with open_emqp(url) as emqp, open_emqp_worker(url, ["q"], slots=3) as worker:
        request = emqp.begin("q", b"1", SURE, Extension(tie=True))
        (job,) = await worker.receive()
        await request.accepted()
        breaks(network)
        with trio.fail_after(10):
            again = emqp.begin("q", b"2", SURE)
            (other,) = await worker.receive()
            assert other.message == b"2"
            assert not job.is_cancelled
            for each in (job, other):
                each.reply(b"done")
            assert (await request.reply()).message == (await again.reply()).message == b"done"
    assert not endpoint_of(broker).troubles["late"]


@BREAKS
async def test_send_comes_back(network: Network, breaks: Callable[[Network], None]) -> None:
    async with open_emqp(url_of(network)) as emqp:
        await emqp.send("q", b"1")
        breaks(network)
        with trio.fail_after(10):
            await emqp.send("q", b"2")


@BREAKS
async def test_stream_goes_on(network: Network, breaks: Callable[[Network], None]) -> None:
    url, count = url_of(network), 300
    async with (
        open_emqp(url) as emqp,
        open_emqp_worker(url, ["q"]) as worker,
        trio.open_nursery() as nursery,
    ):

        async def work() -> None:
            (job,) = await worker.receive()
            for number in range(count):
                await job.item(b"%d" % number)
            job.reply(b"done")

        nursery.start_soon(work)
        request = emqp.begin("q", b"1", SURE, Extension(stream=True))
        got: list[bytes] = []
        with trio.fail_after(20):
            async for item in request.items():
                got.append(item)
                if len(got) == count // 2:
                    breaks(network)
        assert got == [b"%d" % number for number in range(count)]


async def test_log_says_when_the_broker_is_silent_and_when_it_is_back(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "triomq.clients")
    async with open_emqp_worker(url_of(network) + "&name=w", ["q"]):
        network.fall_silent()
        with trio.fail_after(10):
            while "broker is back" not in caplog.messages:  # noqa: ASYNC110  # a thread of libzmq works
                await trio.sleep(0.01)
    said = [record for record in caplog.records if record.name == "triomq.clients"]
    assert [record.getMessage() for record in said] == ["broker silent", "broker is back"]
    place = f"{network.host}:{network.port}"
    assert vars(said[0])["fields"].items() >= {"place": place, "role": "worker", "name": "w"}.items()


@pytest.mark.parametrize(("options", "seconds"), [("", 6.0), ("?heartbeat=10", 20.0), ("?silence=15", 15.0)])
def test_silence_is_two_heartbeats_unless_the_url_says_otherwise(options: str, seconds: float) -> None:
    assert parse_emqp_url(f"emqp://h{options}").settings().silence == seconds
