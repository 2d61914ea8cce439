"""Clients that connect, send one REQUEST and leave, as released programs do for each job."""

import gc
import logging

import pytest
import trio
import zmq

from endpoints.emqp.conftest import CALL, Served
from triomq.endpoints.emqp import peer as peer_module

CLIENTS = 5000

AT_ONCE = 100
"""Clients of one context: few enough for any limit of open files."""

GARBAGE = (
    [b""],
    [b"\xff"] * 9,
    [b"", b"eMQP/1.0"],
    [b"", b"eMQP/1.0", b"REQUEST"],
    [b"", b"eMQP/1.0", b"REQUEST", b"id", b"q", b"", b"\xff"],
    [b"", b"eMQP/1.0", b"INFORM", b"id"],
    [b"", b"eMQP/1.0", b"REPLY", b"id", b"{}", b"id", b"{}"] * 2,
    [bytes(100_000)],
)


def come_and_go(port: int, numbers: range) -> None:
    """Be so many clients, one after the other, with nonsense between them; a thread calls it."""
    for number in numbers:
        if number % AT_ONCE == 0:
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        with context.socket(zmq.DEALER) as socket:  # what it has sent goes out before the context ends
            socket.connect(f"tcp://127.0.0.1:{port}")
            if number % 7 == 0:
                socket.send_multipart(GARBAGE[number % len(GARBAGE)])
            socket.send_multipart([b"", b"eMQP/1.0", b"REQUEST", b"%d" % number, b"q", b"", CALL])
        if number % AT_ONCE == AT_ONCE - 1:
            context.term()


def objects() -> int:
    """Count what is there."""
    gc.collect()
    return len(gc.get_objects())


async def test_thousands_of_them_leave_their_jobs_and_nothing_else_behind(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peer_module, "_SILENT_GUEST", 0.3)
    caplog.set_level(logging.ERROR, "triomq.endpoints")  # what is logged is kept for pytest's report
    queue = await served.broker.declare_queue("q", durable=False)

    async def serve(numbers: range) -> None:
        """Have clients come and go, and all that they leave removed."""
        await trio.to_thread.run_sync(come_and_go, served.port, numbers)
        await served.wait_ready("q", len(numbers))
        ids = {message.properties.message_id for message in await queue.browse(limit=CLIENTS)}
        assert ids == {str(number) for number in numbers}
        await queue.purge()
        with trio.fail_after(60):
            while served.endpoint.peers:  # noqa: ASYNC110  # they are forgotten by and by
                await trio.sleep(0.01)

    await serve(range(AT_ONCE))  # with it comes all that is made once
    before, children = objects(), len(served.endpoint.children)
    await serve(range(CLIENTS))
    with trio.fail_after(60):
        while objects() > before + CLIENTS // 5:  # noqa: ASYNC110  # what was purged is freed by and by
            await trio.sleep(0.05)
    assert len(served.endpoint.children) == children
