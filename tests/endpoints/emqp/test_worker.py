"""Jobs from clients to workers, and answers back."""

import json

import pytest

from endpoints.emqp.conftest import CALL, Served
from triomq.app import Properties
from triomq.endpoints.emqp import worker as worker_module

FAILED = b'{"v": 1, "state": "failed", "type": "ValueError"}'


async def test_job_goes_to_a_worker_that_is_ready_and_its_answer_to_the_requester(served: Served) -> None:
    worker, client = await served.worker(ready=1), await served.client()
    msgid = await client.request(CALL, headers=b"reply-requested")
    assert (await client.answer_to(msgid)).command == b"ACK"
    (request,) = await worker.hear(b"REQUEST")
    assert request == (b"REQUEST", msgid, [b"q", b"reply-requested", CALL])
    await worker.reply(request, b'{"value": 5}')
    (reply,) = await client.hear(b"REPLY")
    assert reply.rest == [b'{"value": 5}', msgid]


async def test_worker_never_gets_more_than_it_has_asked_for(served: Served) -> None:
    worker, client = await served.worker(ready=2), await served.client()
    ids = [await client.request(CALL) for _ in range(5)]
    await client.hear(b"ACK", 6)
    await worker.hear(b"REQUEST", 2)
    await served.wait_ready("q", 3)
    await worker.reply(worker.of(b"REQUEST")[0])  # which makes no room
    await worker.send(b"READY")
    await worker.hear(b"REQUEST", 3)
    await served.wait_ready("q", 2)
    assert [request.msgid for request in worker.of(b"REQUEST")] == ids[:3]


async def test_ready_with_a_count_asks_for_so_many(served: Served) -> None:
    worker, client = await served.worker(extended=True), await served.client()
    await worker.send(b"READY", b"3")
    for _ in range(4):
        await client.request(CALL)
    await worker.hear(b"REQUEST", 3)
    await served.wait_ready("q", 1)


async def test_heavier_workers_are_asked_first_and_of_equal_ones_the_least_recently_used(served: Served) -> None:
    light, heavy, other = [await served.worker(weight=weight, ready=2) for weight in (1, 40, 40)]
    client = await served.client()
    for _ in range(5):
        await client.answer_to(await client.request(CALL))
    for worker, count in ((light, 1), (heavy, 2), (other, 2)):
        assert len(await worker.hear(b"REQUEST", count)) == count


async def test_worker_prefers_its_heavier_queue(served: Served) -> None:
    client = await served.client()
    worker = served.connect()
    msgid = await worker.send(b"INFORM", b'[[10, "later"], [40, "first"]]', b"worker")
    await worker.answer_to(msgid)
    for queue in ("later", "first", "later", "first"):
        await client.request(CALL, queue)
    await client.hear(b"ACK", 5)
    for _ in range(4):
        await worker.send(b"READY")
    requests = await worker.hear(b"REQUEST", 4)
    assert [request.rest[0] for request in requests] == [b"first", b"first", b"later", b"later"]


async def test_job_of_a_released_client_for_a_queue_that_nobody_declared_goes_to_the_default_one(
    served: Served,
) -> None:
    client = served.connect()
    await client.request(CALL, "unheard-of")
    worker = await served.worker("default", ready=1)
    (request,) = await worker.hear(b"REQUEST")
    assert request.rest[0] == b"unheard-of"


async def test_job_waits_in_the_queue_that_it_names_for_workers_that_come_later(served: Served) -> None:
    client, _ = await served.client(), await served.worker("default", ready=1)
    await client.request(CALL, "unheard-of")
    worker = await served.worker("unheard-of", ready=1)
    (request,) = await worker.hear(b"REQUEST")
    assert request.rest[0] == b"unheard-of"


async def test_job_for_a_known_queue_without_workers_waits(served: Served) -> None:
    client, _ = await served.client(), await served.worker("default", ready=1)
    first = await served.worker("email")
    await first.close()
    await client.request(CALL, "email")
    await served.wait_ready("email", 1)
    again = await served.worker("email", ready=1)
    await again.hear(b"REQUEST")


async def test_answer_that_nobody_asked_for_goes_nowhere(served: Served) -> None:
    worker, client = await served.worker(ready=1), await served.client()
    await client.request(CALL)
    (request,) = await worker.hear(b"REQUEST")
    assert request.rest[1] == b"reply-requested"  # the only sign that a released worker gives
    await worker.reply(request)
    await served.wait_ready("q", 0)
    await client.send(b"HEARTBEAT", b"1")
    assert client.of(b"REPLY") == []


async def test_answer_reaches_a_client_that_has_never_said_what_it_is(served: Served) -> None:
    worker, client = await served.worker(ready=1), served.connect()
    msgid = await client.request(CALL, headers=b"reply-requested")
    (request,) = await worker.hear(b"REQUEST")
    await worker.reply(request, b'{"value": "boom"}')
    (reply,) = await client.hear(b"REPLY")
    assert reply.rest == [b'{"value": "boom"}', msgid]


async def test_two_requests_of_one_id_are_answered_each(served: Served) -> None:
    worker, one, two = await served.worker(ready=2), served.connect(), served.connect()
    await one.request(CALL, headers=b"reply-requested", msgid=b"same")
    await two.request(CALL, headers=b"reply-requested", msgid=b"same")
    requests = await worker.hear(b"REQUEST", 2)
    assert len({request.msgid for request in requests}) == 2
    for number, request in enumerate(requests):
        await worker.reply(request, b'{"value": %d}' % number)
    answers = {(await client.answer_to(b"same")).command for client in (one, two)}
    assert answers == {b"ACK"}
    values = {(await client.hear(b"REPLY"))[0].rest[0] for client in (one, two)}
    assert values == {b'{"value": 0}', b'{"value": 1}'}


# Failures and deaths


async def test_failed_job_is_tried_again_as_often_as_it_says(served: Served) -> None:
    worker, client = await served.worker(extended=True, ready=3), await served.client()
    msgid = await client.request(CALL, headers=b"reply-requested,retry-count:2")
    for attempt in (1, 2, 3):
        request = (await worker.hear(b"REQUEST", attempt))[-1]
        assert b'"attempt":%d' % attempt in request.rest[3]
        await worker.send(b"REPLY", b'{"value": "no"}', request.msgid, FAILED)
    (reply,) = await client.hear(b"REPLY")
    assert reply.rest[:2] == [b'{"value": "no"}', msgid]
    assert b"failed" in reply.rest[2]


async def test_job_with_a_guarantee_goes_to_another_worker_when_its_own_is_lost(served: Served) -> None:
    worker, client = await served.worker(ready=1), await served.client()
    await client.request(CALL, headers=b"guarantee")
    await worker.hear(b"REQUEST")
    other = await served.worker(ready=1)
    await worker.close()
    await other.hear(b"REQUEST")  # when a heartbeat has found nobody there


async def test_job_without_a_guarantee_is_given_up_with_its_worker_and_its_requester_hears_of_it(
    served: Served,
) -> None:
    worker, client = await served.worker(ready=1), served.connect()
    await client.request(CALL, headers=b"reply-requested")
    await worker.hear(b"REQUEST")
    await worker.close()
    (reply,) = await client.hear(b"REPLY")
    assert reply.rest[0] == b'{"value": "WorkerLost"}'
    assert served.endpoint.troubles["lost"] == 1
    await served.wait_ready("q", 0)


async def test_worker_that_says_goodbye_may_answer_what_it_has(served: Served) -> None:
    worker, client = await served.worker(ready=2), await served.client()
    await client.request(CALL, headers=b"reply-requested")
    (request,) = await worker.hear(b"REQUEST")
    await worker.send(b"KBYE")
    await worker.send(b"NONSENSE")
    await served.count("malformed")  # so the goodbye is known
    await client.request(CALL)
    await served.wait_ready("q", 1)
    await worker.reply(request)
    await client.hear(b"REPLY")
    assert len(worker.of(b"REQUEST")) == 1


async def test_worker_that_informs_again_has_no_slots_and_no_jobs(served: Served) -> None:
    worker, client = await served.worker(ready=2), await served.client()
    await client.request(CALL, headers=b"guarantee")
    await worker.hear(b"REQUEST")
    await worker.work("q")
    await served.wait_ready("q", 1)
    await worker.send(b"READY")
    await worker.hear(b"REQUEST", 2)


async def test_released_worker_is_given_no_job_that_would_end_it(served: Served) -> None:
    worker, client = await served.worker(ready=1), await served.client()
    await client.request(b'"nonsense"')
    await client.request(CALL)
    (request,) = await worker.hear(b"REQUEST")  # the slot is still there
    assert request.rest[2] == CALL
    assert served.endpoint.troubles["unfit"] == 1


async def test_job_that_its_worker_does_not_end_in_time_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_GRACE", -0.9)
    worker, client = await served.worker(ready=2), await served.client()
    msgid = await client.request(CALL, headers=b"reply-requested,retry-count:1,timeout:1")
    _, second = await worker.hear(b"REQUEST", 2)  # it is tried again
    (reply,) = await client.hear(b"REPLY")
    assert reply.rest[:2] == [b'{"value": "TimeoutError"}', msgid]
    await worker.reply(second)
    await served.count("late", 3)


# Other wires


async def test_message_of_another_wire_is_a_job_and_its_answer_goes_where_it_says(served: Served) -> None:
    worker = await served.worker(ready=1)
    answers = await served.broker.declare_queue("answers", durable=False)
    properties = Properties(reply_to="answers", correlation_id="7", message_id="abc", headers={"timeout": 5})
    await served.broker.publish("", "q", CALL, properties)
    (request,) = await worker.hear(b"REQUEST")
    assert request == (b"REQUEST", b"abc", [b"q", b"reply-requested,guarantee,timeout:5", CALL])
    await worker.reply(request, b'{"value": 1}')
    await served.wait_ready("answers", 1)
    answer = await answers.get()
    assert answer is not None
    assert (answer.body, answer.properties.correlation_id) == (b'{"value": 1}', "7")


@pytest.mark.parametrize(("priority", "told"), [(None, None), (0, 0), (7, 7), (200, 9)])
async def test_worker_with_extensions_learns_the_priority_of_a_message_of_another_wire(
    served: Served, priority: int | None, told: int | None
) -> None:
    worker = await served.worker(extended=True, ready=1)
    await served.broker.publish("", "q", CALL, Properties(priority=priority))
    (request,) = await worker.hear(b"REQUEST")
    assert json.loads(request.rest[3]).get("priority") == told


async def test_answer_to_another_wire_waits_while_memory_is_short(served: Served) -> None:
    worker = await served.worker(ready=1)
    await served.broker.declare_queue("answers", durable=False)
    await served.broker.publish("", "q", CALL, Properties(reply_to="answers"))
    (request,) = await worker.hear(b"REQUEST")
    await served.broker.declare_queue("full", durable=False)
    await served.broker.publish("", "full", bytes(20_000))
    served.broker.set_memory_high_watermark(10_000)
    await worker.reply(request)
    await worker.answer_to(await worker.send(b"STATUS"))
    assert served.endpoint.tallies["q"].done == 1
    assert (await served.broker.queue("answers").statistics()).ready == 0
    served.broker.set_memory_high_watermark(0)
    await served.wait_ready("answers", 1)
    assert "unanswered" not in served.endpoint.troubles


async def test_consumer_of_another_wire_reads_a_request(served: Served) -> None:
    await served.broker.declare_queue("q", durable=False)
    client = await served.client()
    msgid = await client.request(CALL, headers=b"guarantee,timeout:7")
    await served.wait_ready("q", 1)
    delivery = await served.broker.queue("q").get()
    assert delivery is not None
    assert delivery.body == CALL
    assert delivery.properties == Properties(
        content_type="application/json",
        headers={"guarantee": True, "timeout": 7.0},
        persistent=True,
        message_id=msgid.decode(),
        user_id="guest",
    )


async def test_job_of_the_book_that_a_worker_cannot_run_has_failed(served: Served) -> None:
    client = await served.client()
    msgid = await client.request(b"\xff", "q", b"reply-requested")
    await served.worker(ready=1)
    (reply,) = await client.hear(b"REPLY")
    assert reply.rest[1] == msgid
    assert b"UnfitJob" in reply.rest[2]
    assert served.endpoint.jobs.jobs == {}
