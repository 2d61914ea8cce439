"""The RestMS client for Trio: a service over HTTP with two workers; a broker of ours stands in for yours."""

from functools import partial

import trio

from triomq import RestMS, open_broker
from triomq.clients import BasicProperties, RestMSMessage, open_restms


async def work(url: str, name: str, *, task_status: trio.TaskStatus[None]) -> None:
    async with open_restms(url, reconnect=True) as restms, restms.open_pipe("ondemand", title=name) as pipe:
        await pipe.join(restms.feed("upper"))
        task_status.started()
        async for request in pipe:  # an ondemand pipe takes one at a time, and only when it is asked
            answer = BasicProperties(correlation_id=request.properties.message_id)
            await restms.feed().publish(request.body.upper(), request.properties.reply_to or "", answer)
            request.accept()


async def ask(url: str) -> None:
    async with open_restms(url) as restms, restms.open_pipe() as replies:
        words = [b"to", b"be", b"or", b"not"]
        await restms.feed("upper").publish_many(
            RestMSMessage(word, properties=BasicProperties(message_id=str(number), reply_to=replies.name))
            for number, word in enumerate(words)
        )
        answers: dict[str, str] = {}
        async for reply in replies:
            answers[reply.properties.correlation_id or ""] = reply.body.decode()
            reply.accept()
            if len(answers) == len(words):
                break
        print(*(answers[str(number)] for number in range(len(words))))


async def main(url: str) -> None:
    async with open_restms(url) as restms, trio.open_nursery() as nursery:
        await restms.create_feed("upper", "rotator", title="Makes words large")
        for name in ("first", "second"):
            await nursery.start(partial(work, url, name))
        await ask(url)
        nursery.cancel_scope.cancel()


async def with_a_broker_of_our_own() -> None:
    async with open_broker() as broker:
        listening = await broker.listen(RestMS(port=0))
        await main(f"http://guest:guest@localhost:{listening.port}")


trio.run(with_a_broker_of_our_own)
