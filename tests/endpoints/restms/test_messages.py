"""Messages and contents on their way in and out (2/RestMS, messages; 4/AMQP9, properties)."""

import gzip
from base64 import b64encode

import pytest
import trio
import trio.testing

from endpoints.restms.caller import DEFAULT, Caller, open_restms, path_of, read, restms_of
from triomq.app import Broker, User
from triomq.core import Properties
from triomq.endpoints.restms.staged import PLACE
from triomq.protocols import restms
from triomq.security import ALL

WHOLE = (
    'address="a.b" message_id="7" reply_to="r" delivery_mode="2" priority="3" correlation_id="c" expiration="60000" '
    'timestamp="Sun, 06 Nov 1994 08:49:37 GMT" type="t" user_id="guest" app_id="app" sender_id="s"'
)


async def test_message_is_delivered_as_it_was_posted(caller: Caller) -> None:
    feed, pipe = await caller.make_feed("news", "topic"), await caller.make_pipe()
    await pipe.join(feed, "#")
    inside = '<header name="k" value="v"/><header name="e" value=""/><content type="text/plain">hi</content>'
    await caller.post(feed, f"<message {WHOLE} unknown='x'>{inside}</message>")
    (message,) = read(await caller.get((await pipe.hrefs())[0])).messages
    posted = restms.parse(f"<restms><message {WHOLE}>{inside}</message></restms>".encode(), restms.XML)
    assert isinstance(posted, restms.Document)
    content = restms.ContentElement(type="text/plain", encoding="plain", value="hi")
    assert message == restms.MessageElement(
        **{name: getattr(posted.messages[0], name) for name in posted.messages[0].__struct_fields__[:-1]},
        contents=(content,),
    )


async def test_message_is_read_by_the_program_with_all_properties_and_the_other_way_round(
    broker: Broker, caller: Caller
) -> None:
    await broker.declare_queue("q")
    pipe = await caller.make_pipe()
    headers = '<header name="k" value="v"/><content type="text/plain">ping</content>'
    await caller.post(
        DEFAULT, f"<message {WHOLE}>{headers}</message>".replace("a.b", "q").replace('"r"', f'"{pipe.name}"')
    )
    async with broker.queue("q").open_feed() as feed:
        with await anext(feed) as delivery:
            properties = delivery.properties
            assert (delivery.body, properties.priority, properties.expiration, properties.headers) == (
                b"ping",
                3,
                60.0,
                {"k": "v"},
            )
            assert properties.timestamp is not None
            assert properties.reply_to == pipe.name
            answer = Properties(correlation_id=properties.correlation_id, headers={"n": 1}, message_id="m")
            await broker.publish("", pipe.name, b"pong\0", answer)
    (message,) = read(await caller.get((await pipe.hrefs())[0])).messages
    assert (message.address, message.correlation_id, message.message_id) == (pipe.name, "c", "m")
    assert message.headers == (restms.HeaderElement("n", "1"),)
    assert message.contents[0].encoding == "base64"


async def test_replier_over_http_answers_a_queue_of_another_protocol(broker: Broker, caller: Caller) -> None:
    answers = await broker.declare_queue("private", durable=False)
    feed, pipe = await caller.make_feed("service", "service"), await caller.make_pipe("ondemand")
    await pipe.join(feed)
    await broker.publish("", "service", b"ping", Properties(reply_to="private"))
    (message,) = read(await caller.get(await pipe.asynclet())).messages
    assert (await caller.send(DEFAULT, "pong", address=message.reply_to or "")).status == 200
    assert (await answers.statistics()).ready == 1


async def test_documents_in_json_are_read_and_written(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    document = f'{{"restms":{{"message":[{{"address":"{pipe.name}","content":[{{"value":"hi"}}]}}]}}}}'
    reply = await caller.post(DEFAULT, document.encode(), Content_Type="application/restms+json")
    assert reply.status == 200
    reply = await caller.get((await pipe.hrefs())[0], Accept="application/restms+json")
    assert reply.headers["content-type"] == "application/restms+json"
    assert b'"value":"hi"' in reply.body


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ('<message priority="high"/>', 400),
        ('<message timestamp="now"/>', 400),
        ('<message expiration="soon"/>', 400),
        ('<message user_id="other"/>', 403),
        ("<message><content/><content/></message>", 400),
        ('<message><content encoding="base64">?</content></message>', 400),
        (f'<message type="{"x" * 256}"/>', 400),
        ('<message><content href="/restms/resource/nothing"/></message>', 404),
        ("<feed/>", 403),
        ("", 400),
    ],
)
async def test_message_that_cannot_be_published_stops_all_of_its_request(
    caller: Caller, message: str, status: int
) -> None:
    pipe = await caller.make_pipe()
    good = f'<message address="{pipe.name}"/>' if message else ""
    reply = await caller.post(DEFAULT, good + message)
    assert (reply.status, reply.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert await pipe.texts() == []


# Contents


async def stage(caller: Caller, feed: str, body: bytes, **headers: str) -> str:
    reply = await caller.post(feed, body, **headers)
    assert (reply.status, reply.body, "content-type" in reply.headers) == (201, b"", False), reply
    return path_of(reply.headers["location"])


async def test_staged_content_is_used_once_and_by_its_feed_alone(caller: Caller) -> None:
    feed, other, pipe = (
        await caller.make_feed("a", "fanout"),
        await caller.make_feed("b", "fanout"),
        await caller.make_pipe(),
    )
    await pipe.join(feed)
    content = await stage(caller, feed, b"\x89PNG", Content_Type="image/png")
    reply = await caller.get(content)
    assert (reply.body, reply.headers["content-type"]) == (b"\x89PNG", "image/png")
    message = f'<message><content href="http://other.host{content}"/></message>'
    assert (await caller.post(other, message)).status == 403
    assert (await caller.post(feed, message * 2)).status == 404
    assert (await caller.post(feed, message)).status == 200
    assert (await caller.post(feed, message)).status == 404
    assert (await caller.get(content)).status == 404
    (delivered,) = read(await caller.get((await pipe.hrefs())[0])).messages
    assert delivered.contents == (
        restms.ContentElement(type="image/png", encoding="base64", value=b64encode(b"\x89PNG").decode()),
    )


async def test_content_that_is_compressed_says_so_with_its_message_alone(caller: Caller) -> None:
    pipe, packed = await caller.make_pipe(), gzip.compress(b"hello")
    reply = await caller.post(DEFAULT, packed, Content_Type="text/plain", Content_Encoding="gzip")
    assert (reply.status, reply.headers["restms-error"], b"content_encoding" in reply.body) == (501, "media-type", True)
    content = await stage(caller, DEFAULT, packed, Content_Type="text/plain", Content_Encoding="identity")
    properties = f'address="{pipe.name}" content_encoding="gzip"'
    assert (await caller.post(DEFAULT, f'<message {properties}><content href="{content}"/></message>')).status == 200
    (message,) = read(await caller.get((await pipe.hrefs())[0])).messages
    assert (message.content_encoding, restms.content_body(message)) == ("gzip", (packed, "text/plain"))


async def test_content_without_a_type_is_staged_as_octets(caller: Caller) -> None:
    content = await stage(caller, DEFAULT, b"x")
    assert (await caller.get(content)).headers["content-type"] == "application/octet-stream"
    content = await stage(caller, DEFAULT, b"x", Content_Type="")
    assert (await caller.get(content)).headers["content-type"] == "application/octet-stream"


async def test_large_content_is_delivered_by_its_uri_and_can_be_deleted_alone(caller: Caller) -> None:
    one, two = await caller.make_pipe(), await caller.make_pipe()
    feed = await caller.make_feed("a", "fanout")
    for pipe in (one, two):
        await pipe.join(feed)
    body = bytes(range(256)) * 1000
    content = await stage(caller, feed, body, Content_Type="image/png")
    await caller.post(feed, f'<message><content href="{content}"/></message>')
    hrefs = [(await pipe.hrefs())[0] for pipe in (one, two)]
    contents = [read(await caller.get(href)).messages[0].contents[0] for href in hrefs]
    assert [content.type for content in contents] == ["image/png"] * 2
    assert (await caller.get(path_of(contents[0].href or ""))).body == body
    assert (await caller.delete(path_of(contents[0].href or ""))).status == 200
    assert (await caller.get(path_of(contents[0].href or ""))).status == 404
    assert read(await caller.get(hrefs[0])).messages[0].contents == ()
    assert (await caller.get(path_of(contents[1].href or ""))).body == body
    assert (await caller.delete(hrefs[1])).status == 200
    assert (await caller.get(path_of(contents[1].href or ""))).status == 404


async def test_embedded_content_that_is_delivered_by_its_uri_is_decoded(caller: Caller) -> None:
    pipe, body = await caller.make_pipe(), bytes(range(256)) * 1000
    content = f'<content type="image/png" encoding="base64">{b64encode(body).decode()}</content>'
    assert (await caller.post(DEFAULT, f'<message address="{pipe.name}">{content}</message>')).status == 200
    (shown,) = read(await caller.get((await pipe.hrefs())[0])).messages[0].contents
    assert (shown.type, shown.encoding, shown.value) == ("image/png", None, "")
    reply = await caller.get(path_of(shown.href or ""))
    assert (reply.body, reply.headers["content-type"]) == (body, "image/png")


async def test_staged_content_is_gone_after_a_while_and_after_its_delete(broker: Broker, caller: Caller) -> None:
    one, two = [await stage(caller, DEFAULT, b"x" * 1000) for _ in range(2)]
    assert restms_of(broker).resources.staged.users == {"guest": 2000 + 2 * PLACE}
    assert (await caller.delete(one)).status == 200
    assert (await caller.get(one)).status == 404
    await trio.sleep(301)
    assert (await Caller(broker).get(two)).status == 404
    assert restms_of(broker).resources.staged.users == {}


async def test_user_stages_no_more_than_it_may(virtual_time: None) -> None:
    async with open_restms(staged_bytes=10_000 + PLACE, max_content=8_000) as broker:
        broker.set_users({"guest": "guest", "other": User(password="other", permissions={"*": ALL})})
        caller = Caller(broker)
        first = await stage(caller, DEFAULT, b"x" * 8_000)
        assert (await caller.post(DEFAULT, b"x" * 8_001)).status == 413
        assert (await Caller(broker).post(DEFAULT, b"x" * 3_000)).status == 503
        other = Caller(broker, "other")
        assert (await other.get(first)).status == 404
        assert (await other.post(DEFAULT, f'<message><content href="{first}"/></message>')).status == 404
        await stage(other, DEFAULT, b"x" * 8_000)
        assert (await caller.get(first)).status == 200


async def test_users_together_stage_no_more_than_a_part_of_the_memory(broker: Broker, caller: Caller) -> None:
    broker.set_memory_high_watermark(1 << 20)
    broker.put_user("other", User(password="other", permissions={"*": ALL}))
    first = await stage(caller, DEFAULT, b"x" * 100_000)
    reply = await Caller(broker, "other").post(DEFAULT, b"x" * 30_000)
    assert (reply.status, reply.headers["restms-error"]) == (503, "overloaded")
    await caller.delete(first)
    await stage(Caller(broker, "other"), DEFAULT, b"x" * 100_000)


async def test_content_that_its_client_does_not_finish_leaves_nothing(broker: Broker, caller: Caller) -> None:
    gone = Caller(broker)
    await gone.stream.send_all(gone.peer.encode("POST", DEFAULT, b"x" * 1000)[:-10])
    await trio.testing.wait_all_tasks_blocked()
    assert restms_of(broker).resources.staged.users == {"guest": 990 + PLACE}
    await gone.stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert restms_of(broker).resources.staged.users == {}


async def test_document_that_is_too_large_is_refused_before_it_is_read(virtual_time: None) -> None:
    async with open_restms(max_document=2_000) as broker:
        caller = Caller(broker)
        head = caller.peer.encode("POST", DEFAULT, b"x" * 2_001, {"Content-Type": "text/xml"})[:-2_001]
        await caller.stream.send_all(head)
        assert (await caller.peer.reply()).status == 413


# Events


async def read_events(caller: Caller, count: int) -> list[bytes]:
    data = b""
    while data.count(b"\ndata: ") < count:
        data += bytes(await caller.stream.receive_some(65536))
    return [line[4:] for line in data.split(b"\n") if line.startswith(b"id: ")]


async def test_events_ask_proxies_to_pass_them_on_at_once(broker: Broker, caller: Caller) -> None:
    pipe = await caller.make_pipe()
    page = Caller(broker)
    await page.stream.send_all(page.peer.encode("GET", pipe.path, b"", {"Accept": "text/event-stream"}))
    head = bytes(await page.stream.receive_some(4096)).lower()
    assert b"x-accel-buffering: no\r\n" in head
    assert b"cache-control: no-cache, no-transform\r\n" in head


async def test_messages_come_as_events_and_go_on_behind_the_last_one_that_was_seen(
    broker: Broker, caller: Caller
) -> None:
    pipe = await caller.make_pipe()
    await caller.send(DEFAULT, "1", address=pipe.name)
    page = Caller(broker)
    await page.stream.send_all(page.peer.encode("GET", pipe.path, b"", {"Accept": "text/event-stream"}))
    first = await read_events(page, 1)
    await caller.send(DEFAULT, "2", "3", address=pipe.name)
    rest = await read_events(page, 2)
    assert [path_of(f"/restms/resource/{name.decode()}") for name in first + rest] == (await pipe.hrefs())[:3]
    await page.stream.aclose()
    again = Caller(broker)
    headers = {"Accept": "text/event-stream", "Last-Event-ID": rest[0].decode()}
    await again.stream.send_all(again.peer.encode("GET", pipe.path, b"", headers))
    assert await read_events(again, 1) == rest[1:]
    assert await pipe.texts() == ["1", "2", "3"]


@pytest.mark.parametrize(("preferred", "seconds"), [("", 15), ("wait=4", 4), ("wait=0", 1), ("wait=100", 15)])
async def test_stream_of_events_shows_signs_of_life_and_ends_with_its_pipe(
    broker: Broker, caller: Caller, preferred: str, seconds: float
) -> None:
    pipe = await caller.make_pipe()
    page = Caller(broker)
    fields = {"Accept": "text/event-stream", **({"Prefer": preferred} if preferred else {})}
    await page.stream.send_all(page.peer.encode("GET", pipe.path, b"", fields))
    await page.stream.receive_some(65536)
    began = trio.current_time()
    assert b":\n\n" in bytes(await page.stream.receive_some(65536))
    assert seconds <= trio.current_time() - began < seconds + 2
    assert (await caller.delete(pipe.path)).status == 200
    assert bytes(await page.stream.receive_some(65536)).endswith(b"0\r\n\r\n")


# Guards


async def test_request_above_the_rate_of_its_user_is_429(virtual_time: None) -> None:
    async with open_restms(most_requests=2.0) as broker:
        caller = Caller(broker)
        replies = [await caller.get("/restms") for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 200, 429]
        assert replies[2].headers["retry-after"] == "1"
        await trio.sleep(1)
        assert (await caller.get("/restms")).status == 200


async def test_pages_of_other_origins_are_let_in_where_that_is_configured(virtual_time: None) -> None:
    asked = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    async with open_restms(allow_origins=("https://page.example",)) as broker:
        caller = Caller(broker)
        preflight = await caller.ask("OPTIONS", DEFAULT, b"", asked)
        assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (204, "https://page.example")
        assert "POST" in preflight.headers["access-control-allow-methods"]
        for path in ("/restms", "/nothing"):
            reply = await caller.get(path, Origin="https://page.example")
            assert reply.headers["access-control-allow-origin"] == "https://page.example"
        assert "access-control-allow-origin" not in (await caller.get("/restms", Origin="https://evil.example")).headers
    async with open_restms(allow_origins=("*",)) as broker:
        reply = await Caller(broker).get("/restms", Origin="https://any.example")
        assert reply.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in reply.headers
    async with open_restms() as broker:
        reply = await Caller(broker).ask("OPTIONS", DEFAULT, b"", asked)
        assert (reply.status, "access-control-allow-origin" in reply.headers) == (204, False)


async def test_page_of_another_origin_changes_nothing_with_the_password_of_its_reader(caller: Caller) -> None:
    for origin, status in (("https://evil.example", 403), ("null", 403), ("http://toy", 201)):
        assert (await caller.post("/restms/domain/default", "<pipe/>", Origin=origin)).status == status


async def test_stream_of_events_waits_for_a_page_that_does_not_read(broker: Broker, caller: Caller) -> None:
    pipe = await caller.make_pipe()
    ours, theirs = trio.testing.lockstep_stream_pair()
    restms_of(broker).listener.connect_stream(theirs, "lockstep")
    request = caller.peer.encode("GET", pipe.path, b"", {"Accept": "text/event-stream"})
    await ours.send_all(request)
    for number in range(40):
        await caller.send(DEFAULT, str(number) + "x" * 60_000, address=pipe.name)
    (connection,) = (ref.actor for ref in restms_of(broker).children.values() if ref.actor.peer == "lockstep")  # type: ignore[union-attr]
    assert connection.engine.outbox.unsent < 1 << 20  # type: ignore[union-attr]
    data = b""
    while data.count(b"\ndata: ") < 40:
        data += bytes(await ours.receive_some(1 << 20))
    await ours.aclose()


async def test_full_pipe_loses_the_oldest_or_refuses_the_newest_as_configured(virtual_time: None) -> None:
    for overflow, status, left in (("drop-head", 200, ["0", "3"]), ("reject-publish", 503, ["0", "1"])):
        async with open_restms(window=1, pipe_messages=1, overflow=overflow) as broker:
            caller = Caller(broker)
            pipe = await caller.make_pipe()
            for body in "012":
                await caller.send(DEFAULT, body, address=pipe.name)
            assert (await caller.send(DEFAULT, "3", address=pipe.name)).status == status
            assert [await pipe.next(), await pipe.next()] == left
            assert len(await pipe.hrefs()) == 1


async def test_document_that_a_full_pipe_takes_a_part_of_is_503_and_says_which_are_not_published(
    virtual_time: None,
) -> None:
    async with open_restms(window=1, pipe_messages=1, overflow="reject-publish") as broker:
        caller = Caller(broker)
        full, other = await caller.make_pipe(), await caller.make_pipe()
        await caller.send(DEFAULT, "0", "1", address=full.name)
        messages = [f'<message address="{pipe.name}"/>' for pipe in (full, other, full)]
        reply = await caller.post(DEFAULT, "".join(messages))
        assert (reply.status, reply.body) == (
            503,
            b"of 3 messages a queue had no room for 1, 3; the others are published; post those again\n",
        )
        assert len(await other.texts()) == 1
        reply = await caller.post(DEFAULT, messages[0] * 30 + messages[1])
        assert b"18, 19, 20 and 10 more; the others" in reply.body
        reply = await caller.post(DEFAULT, messages[0] * 2)
        assert reply.body == b"a queue had no room for any message; try again when it has\n"


async def test_waiting_get_is_not_refused_while_memory_is_short_and_a_post_is(broker: Broker, caller: Caller) -> None:
    pipe = await caller.make_pipe()
    await broker.declare_queue("full", durable=False)
    await broker.publish("", "full", bytes(20_000))
    broker.set_memory_high_watermark(10_000)
    assert (await caller.get(await pipe.asynclet(), Prefer="wait=60")).status == 204
    reply = await Caller(broker).send(DEFAULT, "x", address=pipe.name)
    assert (reply.status, reply.headers["restms-error"]) == (503, "overloaded")
    assert int(reply.headers["retry-after"]) > 0
    broker.set_memory_high_watermark(0)
    assert (await Caller(broker).send(DEFAULT, "y", address=pipe.name)).status == 200
    assert await pipe.texts() == ["y"]


async def test_request_without_a_user_is_told_the_realm(broker: Broker) -> None:
    caller = Caller(broker, "nobody")
    reply = await caller.get("/restms")
    assert (reply.status, 'realm="RestMS::"' in reply.headers["www-authenticate"]) == (401, True)
    assert reply.headers["restms-error"] == "login"
