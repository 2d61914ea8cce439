"""Jobs that workers still have when they, or their broker, come back."""

import trio

from endpoints.emqp.conftest import Served


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
