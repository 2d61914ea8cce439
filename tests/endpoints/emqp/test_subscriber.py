"""Clients that subscribe by SUBSCRIBE."""

from endpoints.emqp.conftest import Served


async def test_publication_comes_to_subscribers_and_to_queues_of_other_wires(served: Served) -> None:
    queue = await served.broker.declare_queue("mine", durable=False)
    await served.broker.sink("emqp.topic").bind(queue, "news.#")
    subscriber, publisher = await served.client(), served.connect()
    await subscriber.answer_to(await subscriber.send(b"SUBSCRIBE", b"news.*"))
    await publisher.send(b"PUBLISH", b"news.today", b'"sun"')
    await publisher.send(b"PUBLISH", b"news.today", b"", b'"rain"')
    got = await subscriber.hear(b"PUBLISH", 2)
    assert [heard.rest for heard in got] == [[b"news.today", b"", b'"sun"'], [b"news.today", b"", b'"rain"']]
    assert [message.body for message in await queue.browse(limit=9)] == [b'"sun"', b'"rain"']
    await subscriber.answer_to(await subscriber.send(b"UNSUBSCRIBE", b"news.*"))
    await publisher.send(b"PUBLISH", b"news.today", b'"snow"')
    await served.wait_ready("mine", 3)
    assert len(subscriber.of(b"PUBLISH")) == 2
