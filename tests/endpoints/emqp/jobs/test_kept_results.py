"""Results that are kept: found again by their ids, by whom they belong to, and after a restart of the broker."""

from pathlib import Path

from triomq import Broker, open_broker
from triomq.clients.emqp.opening import open_emqp, open_emqp_worker
from triomq.protocols.emqp import Extension, StateReported, make_headers

HEADERS = make_headers(guarantee=True)


async def run_jobs(broker: Broker, *extensions: Extension) -> list[bytes]:
    """Have jobs done whose requester asks for no reply and leaves; return their ids."""
    where = await broker.emqp_connector()
    await broker.declare_queue("q")
    async with open_emqp_worker(where, ["q"], slots=len(extensions)) as worker:
        async with open_emqp(where) as client:
            requests = [client.begin("q", b'["job"]', HEADERS, extension) for extension in extensions]
            for request in requests:
                await request.accepted()
        for _ in extensions:
            job = await anext(worker)
            if job.extension.unique:
                job.fail(RuntimeError("as it was told"))
            else:
                job.reply(b'{"value": 5}')
        await worker.leave()
    return [request.id for request in requests]


async def states(broker: Broker, jobs: list[bytes]) -> list[StateReported]:
    async with open_emqp(await broker.emqp_connector()) as client:
        found = await client.states(jobs, results=True)
    return [found[job] for job in jobs]


async def test_result_is_found_by_another_client_if_it_was_to_be_kept() -> None:
    async with open_broker() as broker:
        jobs = await run_jobs(broker, Extension(keep=60_000), Extension(), Extension(keep=60_000, unique="fails"))
        kept, forgotten, failed = await states(broker, jobs)
    assert (kept.state.state, kept.result) == ("ok", b'{"value": 5}')
    assert (forgotten.state.state, forgotten.result) == ("ok", None)
    assert (failed.state.state, failed.state.type, failed.state.message) == ("failed", "RuntimeError", "as it was told")


async def test_result_is_found_after_a_restart(tmp_path: Path) -> None:
    async with open_broker(data_dir=tmp_path) as broker:
        jobs = await run_jobs(broker, Extension(keep=60_000), Extension(keep=60_000, unique="fails"), Extension())
    async with open_broker(data_dir=tmp_path) as broker:
        kept, failed, forgotten = await states(broker, jobs)
    assert (kept.state.state, kept.result) == ("ok", b'{"value": 5}')
    assert (failed.state.state, failed.state.type) == ("failed", "RuntimeError")
    assert forgotten.state.state == "unknown"
