"""aiohttp: many polls at once from one program, bodies in chunks both ways, and events."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import aiohttp
import pytest

from peers.served import Served

JSON = {"Accept": "application/json"}
MESSAGES = {"Content-Type": "application/restms+json"}
LOGIN = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}  # guest:guest
PATIENCE = 60.0


class Pipe(NamedTuple):
    session: aiohttp.ClientSession
    path: str
    name: str

    async def asynclet(self) -> str:
        return (await look(self.session, self.path))["pipe"][0]["message"][-1]["href"]

    async def texts(self) -> list[str]:
        found = await look(self.session, f"{self.path}?messages=100")
        return [message["content"][0]["value"] for message in found.get("message", ())]


async def look(session: aiohttp.ClientSession, path: str) -> Any:
    async with session.get(path, headers=JSON) as reply:
        assert reply.status == 200, await reply.text()
        return (await reply.json(content_type="application/restms+json"))["restms"]


async def make(session: aiohttp.ClientSession, path: str, **document: object) -> str:
    kind, attributes = document.popitem()
    async with session.post(path, json={"restms": {kind: [attributes]}}) as reply:
        assert reply.status in (200, 201), await reply.text()
        return reply.headers["Location"]


async def make_pipe(session: aiohttp.ClientSession) -> Pipe:
    path = await make(session, "/restms/domain/default", pipe={})
    return Pipe(session, path, path.rpartition("/")[2])


async def send(session: aiohttp.ClientSession, feed: str, address: str, *texts: str) -> None:
    messages = [{"address": address, "content": [{"type": "text/plain", "value": text}]} for text in texts]
    body = json.dumps({"restms": {"message": messages}})
    async with session.post(feed, data=body, headers=MESSAGES) as reply:
        assert (reply.status, await reply.read()) == (200, b"")


def run(
    restms: Served, program: Callable[[aiohttp.ClientSession], Awaitable[None]], *traces: aiohttp.TraceConfig
) -> None:
    async def with_session() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        session = aiohttp.ClientSession(restms.restms, connector=connector, headers=LOGIN, trace_configs=list(traces))
        async with asyncio.timeout(PATIENCE), session:
            await program(session)

    asyncio.run(with_session())


def test_two_hundred_polls_of_one_program_are_answered_by_one_message(restms: Served) -> None:
    unsent, all_sent, trace = set[str](), asyncio.Event(), aiohttp.TraceConfig()

    async def note(session: object, context: object, params: aiohttp.TraceRequestHeadersSentParams) -> None:
        if str(params.url) in unsent:
            unsent.remove(str(params.url))
            if not unsent:
                all_sent.set()

    trace.on_request_headers_sent.append(note)

    async def program(session: aiohttp.ClientSession) -> None:
        feed = await make(session, "/restms/domain/default", feed={"type": "fanout"})
        pipes = await asyncio.gather(*(make_pipe(session) for _ in range(200)))
        for pipe in pipes:
            await make(session, pipe.path, join={"feed": feed})
        asynclets = await asyncio.gather(*(pipe.asynclet() for pipe in pipes))
        unsent.update(asynclets)
        polls = [asyncio.create_task(look(session, asynclet)) for asynclet in asynclets]
        await all_sent.wait()
        await send(session, feed, "", "now")
        for found in await asyncio.gather(*polls):
            assert found["message"][0]["content"][0]["value"] == "now"
        for asynclet in asynclets:
            async with session.delete(asynclet) as reply:
                assert reply.status == 200
        assert [await pipe.texts() for pipe in pipes] == [[]] * 200

    run(restms, program, trace)


def test_poll_that_its_client_gives_up_has_taken_nothing(restms: Served) -> None:
    async def program(session: aiohttp.ClientSession) -> None:
        pipe = await make_pipe(session)
        asynclet = await pipe.asynclet()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await session.get(asynclet, timeout=aiohttp.ClientTimeout(total=0.05))
        await send(session, "/restms/feed/default", pipe.name, "kept")
        found = await look(session, asynclet)
        assert found["message"][0]["content"][0]["value"] == "kept"
        assert await pipe.texts() == ["kept"]

    run(restms, program)


def test_content_in_chunks_goes_through_in_both_directions(restms: Served) -> None:
    pieces = [bytes([number]) * 50_000 for number in range(40)]

    async def produce() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def program(session: aiohttp.ClientSession) -> None:
        pipe = await make_pipe(session)
        headers = {"Content-Type": "application/x-tar"}
        async with session.post(
            "/restms/feed/default", data=produce(), headers=headers, chunked=True, expect100=True
        ) as reply:
            assert (reply.status, "Content-Type" in reply.headers, reply.content_length) == (201, False, 0)
            staged = reply.headers["Location"]
        message = {"address": pipe.name, "content": [{"href": staged}]}
        body = json.dumps({"restms": {"message": [message]}})
        async with session.post("/restms/feed/default", data=body, headers=MESSAGES) as reply:
            assert reply.status == 200
        content = (await look(session, f"{pipe.path}?messages=1"))["message"][0]["content"][0]
        assert content["type"] == "application/x-tar"
        async with session.get(content["href"]) as reply:
            assert reply.headers["Content-Type"] == "application/x-tar"
            assert b"".join([piece async for piece in reply.content.iter_any()]) == b"".join(pieces)

    run(restms, program)


def test_events_go_on_behind_the_last_one_on_another_connection(restms: Served) -> None:
    async def read_events(pipe: Pipe, count: int, last: str = "") -> list[tuple[str, str]]:
        found, name = [], ""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
        async with pipe.session.get(pipe.path, headers=headers) as reply:
            assert reply.content_type == "text/event-stream"
            while len(found) < count:
                field, _, value = (await reply.content.readline()).decode().rstrip("\n").partition(": ")
                if field == "id":
                    name = value
                elif field == "data":
                    found.append((name, json.loads(value)["restms"]["message"][0]["content"][0]["value"]))
        return found

    async def program(session: aiohttp.ClientSession) -> None:
        pipe = await make_pipe(session)
        await send(session, "/restms/feed/default", pipe.name, "1", "2", "3")
        first = await read_events(pipe, 2)
        second = await read_events(pipe, 1, first[-1][0])
        assert [text for _, text in first + second] == ["1", "2", "3"]
        async with session.delete(f"/restms/resource/{first[-1][0]}") as reply:
            assert reply.status == 200
        assert await read_events(pipe, 1) == second

    run(restms, program)
