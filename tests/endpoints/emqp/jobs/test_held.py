"""Jobs that workers still have when they, or their broker, come back."""

import trio

from endpoints.emqp.conftest import CALL, Served


async def test_worker_that_says_goodbye_may_answer_what_it_has_claimed(served: Served) -> None:
    worker = served.connect()
    about = b'{"v": 1, "capabilities": ["jobs"], "running": [["early", 1]]}'
    await worker.answer_to(await worker.send(b"INFORM", b'[[10, "q"]]', b"worker", about))
    (held,) = served.endpoint.jobs.hold
    await worker.send(b"KBAI")
    await worker.send(b"REPLY", b'{"value": 1}', b"early", b'{"v": 1, "attempt": 1, "state": "ok"}')
    with trio.fail_after(5):
        while served.endpoint.peers:  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.001)
    assert held.answer is not None
    assert "late" not in served.endpoint.troubles


async def test_job_of_which_two_workers_tell_another_attempt_goes_on(served: Served) -> None:
    workers = [served.connect(), served.connect()]
    for attempt, worker in enumerate(workers, 1):
        about = b'{"v": 1, "capabilities": ["jobs"], "running": [["x", %d]]}' % attempt
        await worker.answer_to(await worker.send(b"INFORM", b'[[10, "q"]]', b"worker", about))
        failed = b'{"v": 1, "attempt": %d, "state": "failed"}' % attempt
        await worker.send(b"REPLY", b'{"value": "ValueError"}', b"x", failed)
    client = served.connect()
    await client.join()
    extension = b'{"v": 1, "retries": 2, "backoff": [1, 1]}'
    await client.answer_to(await client.send(b"REQUEST", b"q", b"guarantee", CALL, extension, msgid=b"x"))
    await workers[0].send(b"READY")
    (request,) = await workers[0].hear(b"REQUEST")
    assert (request.msgid, b'"attempt":3' in request.rest[-1]) == (b"x", True)
