"""A client and a worker whose broker is restarted while they have a job: it is done once, and answered."""

from collections.abc import Callable
from pathlib import Path

import trio

from ports import free_port
from triomq.app import open_broker
from triomq.clients import open_emqp, open_emqp_worker
from triomq.endpoints import EMQP
from triomq.protocols.emqp import ITEM_WINDOW, Extension, make_headers

SURE = make_headers(reply_requested=True, guarantee=True)


class Restarting:
    """A broker with a store that can be restarted."""

    def __init__(self, folder: Path) -> None:
        self._config = EMQP(port=free_port(), heartbeat=0.1, silence=20.0)
        self.url = f"emqp://127.0.0.1:{self._config.port}?heartbeat=0.1&silence=20"
        self._folder = folder
        self._stop: Callable[[], None] = lambda: None
        self.is_there = trio.Event()
        self._is_back = trio.Event()

    async def run(self) -> None:
        while True:
            stopping = trio.Event()
            self._stop = stopping.set
            async with open_broker(self._config, data_dir=self._folder, drain=0.05) as broker:
                if "q" not in broker.directory.queues:
                    await broker.declare_queue("q")
                self.is_there.set()
                self._is_back.set()
                await stopping.wait()

    async def restart(self) -> None:
        self._is_back = trio.Event()
        self._stop()
        await self._is_back.wait()


async def test_job_goes_on_while_the_broker_is_restarted(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            broker = Restarting(tmp_path)
            nursery.start_soon(broker.run)
            await broker.is_there.wait()
            async with open_emqp(broker.url) as emqp, open_emqp_worker(broker.url, ["q"], slots=2) as worker:
                request = emqp.begin("q", b"1", SURE)
                (job,) = await worker.receive()
                await request.accepted()
                await broker.restart()
                job.reply(b"done")
                assert (await request.reply()).message == b"done"
                again = emqp.begin("q", b"2", SURE)
                (job,) = await worker.receive()
                assert (job.message, job.attempt) == (b"2", 1)
                job.reply(b"done")
                await again.reply()
            nursery.cancel_scope.cancel()


async def test_stream_goes_on_while_the_broker_is_restarted(tmp_path: Path) -> None:
    count = 5 * ITEM_WINDOW

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            broker = Restarting(tmp_path)
            nursery.start_soon(broker.run)
            await broker.is_there.wait()
            async with open_emqp(broker.url) as emqp, open_emqp_worker(broker.url, ["q"]) as worker:

                async def work() -> None:
                    (job,) = await worker.receive()
                    for number in range(count):
                        await job.item(b"%d" % number)
                    job.reply(b"done")

                nursery.start_soon(work)
                request = emqp.begin("q", b"1", SURE, Extension(stream=True))
                got: list[bytes] = []
                async for item in request.items():
                    got.append(item)
                    if len(got) == count // 2:
                        nursery.start_soon(broker.restart)
                assert got == [b"%d" % number for number in range(count)]
                assert (await request.reply()).message == b"done"
            nursery.cancel_scope.cancel()
