"""What is no request of RestMS, or cannot be done: each has its answer, and a poll beside it does not notice."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from endpoints.restms.caller import DEFAULT, DOMAIN, XML, Caller, path_of, restms_of
from endpoints.restms.test_pipes import waiting
from endpoints.toys.http_peer import Reply
from protocols.http1.test_head import REFUSED
from triomq.app import Broker


@pytest.fixture(autouse=True)
async def bystander(broker: Broker) -> AsyncIterator[None]:
    """A poll that waits all the time, and gets its message in the end."""
    caller, replies = Caller(broker), list[Reply]()
    pipe = await caller.make_pipe()
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, await pipe.asynclet(), replies)
        yield
        assert not replies
        await Caller(broker).send(DEFAULT, "hello", address=pipe.name)
    assert [reply.status for reply in replies] == [200]


async def things(caller: Caller) -> dict[str, str]:
    """Make one of each resource; return where they are."""
    pipe = await caller.make_pipe()
    join = await pipe.join(await caller.make_feed("news", "topic"), "a.*")
    default_join = path_of((await pipe.document()).joins[0].href or "")
    await caller.send(DEFAULT, "hello", address=pipe.name)
    message, asynclet = await pipe.hrefs()
    staged = path_of((await caller.post("/restms/feed/news", b"x")).headers["location"])
    ondemand = (await caller.make_pipe("ondemand")).path
    return {
        "ASYNCLET": asynclet,
        "DEFAULTJOIN": default_join,
        "DEFAULT": DEFAULT,
        "DOMAIN": DOMAIN,
        "ELSEWHERE": "/elsewhere",
        "FEED": "/restms/feed/news",
        "JOIN": join,
        "MESSAGE": message,
        "NOTHING": "/restms/resource/nothing",
        "ONDEMAND": ondemand,
        "PIPE": pipe.path,
        "STAGED": staged,
    }


MANY = "<message/>" * 20_000
TWO = "<content>a</content><content>b</content>"

ROWS: dict[tuple[str, str], tuple[int, str]] = {
    # Methods that a resource does not have
    ("PUT DOMAIN", "<feed/>"): (403, "method"),
    ("DELETE DOMAIN", ""): (403, "method"),
    ("PUT JOIN", "<join/>"): (403, "method"),
    ("POST JOIN", "<join/>"): (403, "method"),
    ("PUT MESSAGE", "<message/>"): (403, "method"),
    ("POST MESSAGE", "<message/>"): (403, "method"),
    ("PUT STAGED", "<message/>"): (403, "method"),
    ("POST STAGED", "<message/>"): (403, "method"),
    ("PATCH PIPE", "<pipe/>"): (403, "method"),
    ("PUT DEFAULT", '<feed title="x"/>'): (403, "configured"),
    ("DELETE DEFAULT", ""): (403, "configured"),
    ("DELETE DEFAULTJOIN", ""): (403, "default-join"),
    # Resources that are not there
    ("GET NOTHING", ""): (404, "missing"),
    ("PUT NOTHING", "<feed/>"): (404, "missing"),
    ("POST NOTHING", "<feed/>"): (404, "missing"),
    ("GET ELSEWHERE", ""): (404, "missing"),
    ("DELETE ELSEWHERE", ""): (404, "missing"),
    ("DELETE ASYNCLET", ""): (404, "pending"),
    ("GET /restms/feed/%", ""): (400, "bad-uri"),
    ("GET PIPE?messages=0", ""): (400, "bad-request"),
    ("GET PIPE?messages=x", ""): (400, "bad-request"),
    # Documents that are none
    ("POST DOMAIN", ""): (400, "empty"),
    ("POST DOMAIN", "<pipe>"): (400, "unreadable"),
    ("POST DOMAIN", "&nbsp;"): (400, "unreadable"),
    ("POST DOMAIN", "<pipe/>" * 20_000): (413, "too-large"),
    ("POST DEFAULT", "<message>" * 40 + "</message>" * 40): (413, "too-large"),
    ("POST DEFAULT", MANY): (413, "too-large"),
    ("POST DEFAULT", f"<message><content>{'x' * (1 << 20)}</content></message>"): (413, "too-large"),
    # Documents that belong elsewhere, or say too little or too much
    ("POST DOMAIN", '<join feed="/restms/feed/news"/>'): (403, "not-creatable"),
    ("POST PIPE", "<pipe/>"): (403, "not-creatable"),
    ("POST DEFAULT", "<feed/>"): (403, "not-creatable"),
    ("POST DOMAIN", "<feed/><feed/>"): (400, "several"),
    ("POST PIPE", "<join/>"): (400, "incomplete"),
    ("POST DOMAIN", '<feed name="x" type="nothing"/>'): (400, "unknown-type"),
    ("POST DOMAIN", '<feed name="news" type="fanout"/>'): (400, "other-type"),
    ("POST DOMAIN", '<feed name="a b"/>'): (400, "bad-name"),
    ("POST DOMAIN", '<feed name="a/b"/>'): (400, "bad-name"),
    ("POST DOMAIN", '<feed name=".."/>'): (400, "bad-name"),
    ("POST DOMAIN", '<feed name="amq.x"/>'): (403, "forbidden"),
    ("POST DOMAIN", '<pipe type="stream"/>'): (400, "unknown-type"),
    ("PUT FEED", '<feed name="x"/>'): (403, "fixed"),
    ("PUT FEED", '<feed type="fanout"/>'): (403, "fixed"),
    # Joins
    ("POST PIPE", '<join feed="/restms/feed/nothing"/>'): (404, "missing-feed"),
    ("POST PIPE", '<join feed="/restms/feed/default"/>'): (403, "default-feed"),
    ("POST PIPE", '<join feed="/restms/feed/news" type="x"/>'): (400, "unknown-type"),
    ("POST ONDEMAND", '<join feed="/restms/feed/news"/>'): (403, "on-demand"),
    # Messages
    ("POST DEFAULT", f'<message address="{"x" * 256}"/>'): (400, "bad-property"),
    ("POST DEFAULT", f"<message>{TWO}</message>"): (400, "several"),
    ("POST DEFAULT", '<message priority="x"/>'): (400, "bad-property"),
    ("POST DEFAULT", '<message><header value="v"/></message>'): (400, "incomplete"),
    ("POST DEFAULT", '<message user_id="other"/>'): (403, "forbidden"),
    ("POST DEFAULT", '<message><content encoding="x">a</content></message>'): (400, "unknown-type"),
    ("POST DEFAULT", '<message><content encoding="base64">a</content></message>'): (400, "bad-property"),
    ("POST DEFAULT", '<message><content href="/restms/resource/nothing"/></message>'): (404, "missing-content"),
    ("POST DEFAULT", '<message><content href="STAGED"/></message>'): (403, "foreign-content"),
}
"""By what is asked, and the body without its root."""


async def test_each_request_that_cannot_be_done_is_told_so_and_changes_nothing(broker: Broker, caller: Caller) -> None:
    where = await things(caller)

    def named(text: str) -> str:
        for name, path in where.items():
            text = text.replace(name, path)
        return text

    before = {name: (await caller.get(path)).body for name, path in where.items() if name != "ASYNCLET"}
    found = {}
    for asked, body in ROWS:
        method, _, path = asked.partition(" ")
        whole = f"<restms>{named(body)}</restms>".encode() if body else b""
        reply = await Caller(broker).ask(method, named(path), whole, XML if method != "GET" else {})
        found[asked, body] = reply.status, reply.headers.get("restms-error")
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    wrong = {asked: (answer, ROWS[asked]) for asked, answer in found.items() if answer != ROWS[asked]}
    assert not wrong
    assert {name: (await Caller(broker).get(where[name])).body for name in before} == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": "image/png"}, 501),
        ({"Content-Type": "application/pdf"}, 501),
        ({"Content-Type": "text/xml; charset=none"}, 501),
        ({"Content-Encoding": "gzip"}, 501),
        ({"Content-Type": "application/json"}, 400),
        ({"Expect": "200-maybe"}, 417),
        ({"Content-Length": "1048577"}, 413),
    ],
)
async def test_media_types_and_lengths_are_looked_at_before_the_body(
    caller: Caller, headers: dict[str, str], status: int
) -> None:
    request = caller.peer.encode("POST", DOMAIN, b"<restms><pipe/></restms>", XML | headers)
    await caller.stream.send_all(request)
    assert (await caller.peer.reply()).status == status


async def test_each_head_that_is_none_is_refused_and_ends_its_connection_alone(broker: Broker) -> None:
    for data, status, text in REFUSED:
        caller = Caller(broker)
        await caller.stream.send_all(data)
        answer = b""
        while piece := bytes(await caller.stream.receive_some()):
            answer += piece
        await caller.stream.aclose()
        assert (answer[9:12], text.encode() in answer) == (b"%d" % status, True), data
    await trio.testing.wait_all_tasks_blocked()
    assert len(restms_of(broker).children) <= 2
