"""Feeds in RestMS's sense: which there are, what makes them, where their messages go (3/Defaults, 4/AMQP9)."""

import pytest
import trio
import trio.testing

from endpoints.restms.caller import DEFAULT, DOMAIN, Caller, open_restms, path_of, read
from triomq.app import Broker, User
from triomq.core import DeclareQueue, DeclareSink, DeleteQueue, QueueOptions, SinkKind, SinkOptions
from triomq.endpoints.feeds import PIPE_MARK
from triomq.endpoints.restms.config import RestMS
from triomq.errors import ConfigError
from triomq.protocols import restms
from triomq.security import ALL, Permission

SINKS = ("", "fanout", "direct", "topic", "headers")
QUEUES = ("rotator", "service")


async def listed(caller: Caller, domain: str = "default") -> dict[str, str]:
    reply = await caller.get(f"/restms/domain/{domain}")
    assert reply.status == 200, reply
    return {feed.name or "": feed.type or "" for feed in read(reply).domains[0].feeds}


async def test_domain_lists_its_profiles_and_public_feeds(caller: Caller) -> None:
    (domain,) = read(await caller.get(DOMAIN)).domains
    assert [profile.name for profile in domain.profiles] == ["3/Defaults", "4/AMQP9"]
    assert domain.feeds[0].name == "default"
    assert domain.feeds[0].href == "http://toy/restms/feed/default"
    assert (await listed(caller))["amq.topic"] == "topic"
    (same,) = read(await caller.get("/restms")).domains
    assert same.href == "http://toy/restms/domain/default"


@pytest.mark.parametrize("form", ["xml", "json"])
async def test_domain_with_very_many_feeds_is_listed_while_others_have_their_turns(
    broker: Broker, caller: Caller, form: str
) -> None:
    names = {f"s{number}" for number in range(1_200)}
    for name in names:
        broker.domain_ref.ask_nowait(DeclareSink(name, SinkOptions(), broker.session))
    answered: list[str] = []

    async def receive(path: str, asker: Caller) -> None:
        await asker.stream.receive_some(1)
        answered.append(path)

    async with trio.open_nursery() as nursery:
        for path, asker in ((DOMAIN, caller), ("/restms", Caller(broker))):
            await asker.stream.send_all(asker.peer.encode("GET", path))
            nursery.start_soon(receive, path, asker)
    assert answered == ["/restms", DOMAIN]
    reply = await Caller(broker).get(DOMAIN, Accept=f"application/restms+{form}")
    found = restms.parse(reply.body, restms.JSON if form == "json" else restms.XML)
    assert isinstance(found, restms.Document)
    feeds = found.domains[0].feeds
    assert names < {feed.name for feed in feeds}
    assert len(feeds) == len({feed.href for feed in feeds})
    again = await Caller(broker).get(DOMAIN, If_None_Match=reply.headers["etag"], Accept=f"application/restms+{form}")
    assert again.status == 304


async def test_delete_does_not_look_at_media_types(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    join = await pipe.join(await caller.make_feed("news", "topic"))
    await caller.send(DEFAULT, "x", address=pipe.name)
    for path in (join, (await pipe.hrefs())[0], pipe.path, "/restms/feed/news"):
        assert (await caller.delete(path, Accept="image/png", Content_Type="a/b")).status == 200
        assert (await caller.get(path)).status == 404


async def test_default_feed_is_of_no_type_in_the_list_and_direct_in_its_document(caller: Caller) -> None:
    assert (await listed(caller))["default"] == ""
    assert read(await caller.get(DEFAULT)).feeds[0].type == "direct"


@pytest.mark.parametrize("type_", [*SINKS, *QUEUES])
async def test_feed_of_each_type_is_made_once_shown_listed_and_deleted(
    broker: Broker, caller: Caller, type_: str
) -> None:
    feed = f'<feed name="news" type="{type_}" title="t" license="l"/>'
    reply = await caller.post(DOMAIN, feed)
    assert (reply.status, reply.headers["location"]) == (201, "http://toy/restms/feed/news")
    (made,) = read(reply).feeds
    assert (made.name, made.type, made.title, made.license) == ("news", type_, "t", "l")
    again = await caller.post(DOMAIN, feed)
    assert (again.status, again.headers["location"], again.body) == (200, reply.headers["location"], reply.body)
    assert (await caller.get("/restms/feed/news")).body == reply.body
    assert (await listed(caller))["news"] == type_
    assert ("news" in broker.directory.queues) is (type_ in QUEUES)
    assert (await caller.delete("/restms/feed/news")).status == 200
    assert (await caller.get("/restms/feed/news")).status == 404
    assert (await caller.delete("/restms/feed/news")).status == 200
    assert "news" not in await listed(caller)


async def test_feed_of_another_type_is_400_but_a_configured_one_is_shown_as_it_is(caller: Caller) -> None:
    await caller.make_feed("news", "topic")
    assert (await caller.post(DOMAIN, '<feed name="news" type="fanout"/>')).status == 400
    assert (await caller.post(DOMAIN, '<feed name="news" type="rotator"/>')).status == 400
    assert (await caller.post(DOMAIN, '<feed name="news"/>')).status == 200
    for name in ("default", "amq.topic"):
        reply = await caller.post(DOMAIN, f'<feed name="{name}" type="fanout"/>')
        assert (reply.status, read(reply).feeds[0].type) == (200, "direct" if name == "default" else "topic")


async def test_documents_that_make_nothing_are_refused(caller: Caller) -> None:
    for document, status in (
        ('<feed name="x" type="nothing"/>', 400),
        ('<feed name="a b"/>', 400),
        ('<feed name="a@b"/>', 400),
        ('<feed name="amq.mine"/>', 403),
        ('<pipe type="stream"/>', 400),
        ('<join feed="/restms/feed/default"/>', 403),
        ("<feed/><feed/>", 400),
        ("", 400),
    ):
        assert (await caller.post(DOMAIN, document)).status == status, document
    assert (await caller.post(DOMAIN, b"", Content_Type="text/xml")).status == 400
    assert (await caller.post(DOMAIN, b"<other/>", Content_Type="text/xml")).status == 400
    assert (await caller.post(DOMAIN, b"x", Content_Type="image/png")).status == 501
    assert (await caller.get(DOMAIN, Accept="image/png")).status == 501
    assert (await caller.put(DOMAIN, "<domain/>")).status == 403
    assert (await caller.delete(DOMAIN)).status == 403


async def test_private_feed_is_not_listed_and_another_one_each_time(broker: Broker, caller: Caller) -> None:
    one, two = [await caller.post(DOMAIN, '<feed type="fanout"/>') for _ in range(2)]
    path = path_of(one.headers["location"])
    assert path.startswith("/restms/resource/feed-")
    assert path != path_of(two.headers["location"])
    assert read(one).feeds[0].name == path.rpartition("/")[2]
    assert not any(name.startswith("feed-") for name in await listed(caller))
    pipe = await caller.make_pipe()
    await pipe.join(path)
    assert (await caller.send(path, "hello")).status == 200
    assert await pipe.texts() == ["hello"]
    assert (await pipe.document()).joins[1].feed == one.headers["location"]
    assert (await caller.delete(path)).status == 200
    assert (await caller.get(path)).status == 404
    assert len((await pipe.document()).joins) == 1


async def test_title_and_license_of_a_feed_can_be_changed_and_nothing_else(caller: Caller) -> None:
    feed = await caller.make_feed("news", "topic")
    tag = (await caller.get(feed)).headers["etag"]
    assert (await caller.put(feed, '<feed title="new" license="free"/>', If_Match=tag)).status == 200
    assert (await caller.put(feed, '<feed title="newer"/>', If_Match=tag)).status == 412
    (shown,) = read(await caller.get(feed)).feeds
    assert (shown.title, shown.license, shown.type) == ("new", "free", "topic")
    assert (await caller.put(feed, '<feed type="fanout"/>')).status == 403
    assert (await caller.put(feed)).status == 204


@pytest.mark.parametrize("name", ["default", "amq.topic", "programs"])
async def test_configured_feeds_cannot_be_changed_or_deleted(broker: Broker, caller: Caller, name: str) -> None:
    await broker.declare_sink("programs", "topic")
    for reply in (
        await caller.put(f"/restms/feed/{name}", '<feed title="mine"/>'),
        await caller.delete(f"/restms/feed/{name}"),
    ):
        assert (reply.status, reply.headers["restms-error"]) == (403, "configured")


async def test_feed_is_deleted_by_its_maker_alone_or_an_administrator(broker: Broker) -> None:
    users = {name: User(password=name, permissions={"*": ALL}) for name in ("ada", "bob")}
    broker.set_users({**users, "admin": User(password="admin", permissions={"*": ALL}, tags=("administrator",))})
    feed = await Caller(broker, "ada").make_feed("news", "topic")
    assert (await Caller(broker, "bob").delete(feed)).status == 403
    assert (await Caller(broker, "bob").put(feed, '<feed title="x"/>')).status == 403
    assert (await Caller(broker, "admin").delete(feed)).status == 200


async def test_connection_that_asks_for_one_feed_again_sees_what_has_become_of_it(broker: Broker) -> None:
    users = {name: User(password=name, permissions={"*": ALL}) for name in ("ada", "bob")}
    broker.set_users(users)
    ada, bob = Caller(broker, "ada"), Caller(broker, "bob")
    feed = await ada.make_feed("news", "topic")
    assert (await bob.put(feed, '<feed title="x"/>')).status == 403
    broker.set_users({**users, "bob": User(password="bob", permissions={"*": ALL}, tags=("administrator",))})
    assert (await bob.put(feed, '<feed title="y"/>')).status == 200
    for title in ("new", "newer"):
        assert (await ada.put(feed, f'<feed title="{title}"/>')).status == 200
        assert read(await bob.get(feed)).feeds[0].title == title
    assert (await ada.delete(feed)).status == 200
    assert (await bob.get(feed)).status == 404
    await ada.make_feed("news", "rotator")
    assert read(await bob.get(feed)).feeds[0].type == "rotator"
    session = broker.session
    broker.domain_ref.ask_nowait(DeleteQueue("news", session))
    assert (await bob.get(feed)).status == 404
    assert (await bob.post(feed, "<message/>")).status == 404


@pytest.mark.parametrize("name", [".", ".."])
async def test_feed_whose_name_is_a_step_in_a_path_is_made_by_other_protocols_alone(
    broker: Broker, caller: Caller, name: str
) -> None:
    reply = await caller.post(DOMAIN, f'<feed name="{name}" type="topic"/>')
    assert (reply.status, reply.headers["restms-error"], b"no URI leads there" in reply.body) == (400, "bad-name", True)
    await broker.declare_sink(name, "topic")
    assert name in await listed(caller)
    with pytest.raises(ConfigError, match="no URI leads there"):
        RestMS(domains=(name,))


@pytest.mark.parametrize(
    "url", ["example.org", "https://", "ftp://h", "https://h/path", "https://h\r\nX: y", "http://u@h"]
)
def test_url_that_no_uri_can_begin_with_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="write scheme and host alone"):
        RestMS(url=url)


async def test_uris_begin_with_the_url_that_is_configured(virtual_time: None) -> None:
    async with open_restms(url="https://example.org/") as broker:
        reply = await Caller(broker).post(DOMAIN, '<feed name="news" type="topic"/>')
        assert reply.headers["location"] == "https://example.org/restms/feed/news"


async def test_what_other_protocols_have_made_is_a_feed(broker: Broker, caller: Caller) -> None:
    session = broker.session
    for request in (
        DeclareSink("exchange", SinkOptions(kind=SinkKind.FANOUT), session),
        DeclareSink("internal", SinkOptions(internal=True), session),
        DeclareSink("hash", SinkOptions(kind=SinkKind.CONSISTENT_HASH), session),
        DeclareQueue("shared", QueueOptions(), session),
        DeclareQueue("going", QueueOptions(auto_delete=True), session),
        DeclareQueue("mine", QueueOptions(exclusive=True), session),
        DeclareSink("foreign", SinkOptions(), session, "oslo@oslo"),
        DeclareQueue("foreign pipe", QueueOptions(remarks=PIPE_MARK), session, "oslo@oslo"),
    ):
        broker.domain_ref.ask_nowait(request)  # type: ignore[arg-type]
    found = await listed(caller)
    assert {name: type_ for name, type_ in found.items() if not name.startswith("amq.")} == {
        "default": "",
        "exchange": "fanout",
        "shared": "rotator",
        "going": "service",
        "foreign": "direct",
    }
    assert (await caller.delete("/restms/feed/foreign")).status == 403
    assert (await caller.get("/restms/feed/internal")).status == 404
    assert (await caller.post(DOMAIN, '<feed name="hash" type="direct"/>')).status == 400


# Where messages go


async def test_default_type_feed_leads_to_each_join_with_the_same_address(caller: Caller) -> None:
    for type_ in ("", "direct"):
        feed = await caller.make_feed(f"news{type_}", type_)
        one, two = await caller.make_pipe(), await caller.make_pipe()
        await one.join(feed, "a")
        await two.join(feed, "a")
        await two.join(feed, "b")
        for address in ("a", "b", "A", "*"):
            await caller.send(feed, address, address=address)
        assert (await one.texts(), await two.texts()) == (["a"], ["a", "b"])


async def test_fanout_leads_to_all_joins_and_one_copy_comes_into_each_pipe(caller: Caller) -> None:
    feed = await caller.make_feed("news", "fanout")
    pipe = await caller.make_pipe()
    await pipe.join(feed, "a")
    await pipe.join(feed, "b")
    await caller.send(feed, "1", address="whatever")
    assert await pipe.texts() == ["1"]


async def test_topic_knows_words_stars_and_hashes(caller: Caller) -> None:
    feed = await caller.make_feed("news", "topic")
    for pattern, expected in (("a.*", ["a.b"]), ("a.#", ["a", "a.b", "a.b.c"]), ("#", ["a", "a.b", "a.b.c", "b"])):
        pipe = await caller.make_pipe()
        await pipe.join(feed, pattern)
        for address in ("a", "a.b", "a.b.c", "b"):
            await caller.send(feed, address, address=address)
        assert await pipe.texts() == expected


async def test_headers_feed_wants_all_headers_of_a_join_to_be_equal(caller: Caller) -> None:
    feed = await caller.make_feed("news", "headers")
    pipe = await caller.make_pipe()
    await pipe.join(feed, headers='<header name="a" value="1"/><header name="x-b" value="2"/>')
    for headers, body in (
        ('<header name="a" value="1"/><header name="x-b" value="2"/><header name="c" value="3"/>', "both"),
        ('<header name="a" value="1"/>', "one"),
        ('<header name="a" value="1"/><header name="x-b" value="3"/>', "other"),
    ):
        await caller.post(feed, f"<message>{headers}<content>{body}</content></message>")
    assert await pipe.texts() == ["both"]


async def test_rotator_gives_each_message_to_one_pipe_in_turn_and_queues_without_any(caller: Caller) -> None:
    feed = await caller.make_feed("work", "rotator")
    await caller.send(feed, "0", address="ignored")
    one, two = await caller.make_pipe(), await caller.make_pipe()
    await one.join(feed)
    await two.join(feed)
    await caller.send(feed, "1", "2", "3", "4")
    assert await one.texts() + await two.texts() == ["0", "1", "3", "2", "4"]


async def test_address_for_a_rotator_travels_as_the_message_id_unless_that_is_given(caller: Caller) -> None:
    feed = await caller.make_feed("work", "rotator")
    pipe = await caller.make_pipe()
    await pipe.join(feed)
    await caller.send(feed, "1", address="a")
    await caller.send(feed, "2", address="a", message_id="mine")
    messages = read(await caller.get(f"{pipe.path}?messages=9")).messages
    assert [(message.address, message.message_id) for message in messages] == [(None, "a"), (None, "mine")]


async def test_service_is_deleted_with_its_last_join_and_not_before_it_had_one(broker: Broker, caller: Caller) -> None:
    feed = await caller.make_feed("service", "service")
    await caller.send(feed, "early")
    one, two = await caller.make_pipe(), await caller.make_pipe("ondemand")
    join = await one.join(feed)
    await two.join(feed)
    assert await one.texts() == ["early"]
    assert (await caller.delete(join)).status == 200
    assert (await caller.get(feed)).status == 200
    assert (await caller.delete(two.path)).status == 200
    assert (await caller.get(feed)).status == 404
    assert "service" not in broker.directory.queues


# A domain with 3/Defaults alone


async def test_domain_with_defaults_alone_has_no_types_and_counts_joins(virtual_time: None) -> None:
    async with open_restms(domains=("default", "plain"), defaults_only=("plain",)) as broker:
        caller = Caller(broker)
        (domain,) = read(await caller.get("/restms/domain/plain")).domains
        assert [profile.name for profile in domain.profiles] == ["3/Defaults"]
        assert await listed(caller, "plain") == {"default": ""}
        for type_ in ("fanout", "rotator"):
            assert (await caller.post("/restms/domain/plain", f'<feed name="x" type="{type_}"/>')).status == 400
        assert (await caller.post("/restms/domain/plain", '<pipe type="ondemand"/>')).status == 400
        feed = await caller.make_feed("news", "", "plain")
        assert feed == "/restms/feed/plain/news"
        one, two = await caller.make_pipe(domain="plain"), await caller.make_pipe(domain="plain")
        await one.join(feed, "a")
        await two.join(feed, "a")
        reply = await caller.post(feed, '<message address="a"/><message address="b"/>')
        assert [message.count for message in read(reply).messages] == ["2", "0"]
        reply = await caller.send("/restms/feed/plain/default", "x", address=one.name)
        assert [message.count for message in read(reply).messages] == ["1"]
        assert len(read(await caller.get(f"{one.path}?messages=5")).messages) == 2
        other = await caller.make_feed("news", "")
        assert (await caller.post(one.path, f'<join feed="{other}"/>')).status == 404


async def test_user_enters_the_domains_alone_for_which_it_has_permissions(virtual_time: None) -> None:
    users = {"ada": User(password="ada", permissions={"plain": ALL})}
    async with open_restms(domains=("default", "plain"), users=users) as broker:
        ada = Caller(broker, "ada")
        assert [domain.name for domain in read(await ada.get("/restms")).domains] == ["plain"]
        await ada.make_pipe(domain="plain")
        for reply in (
            await ada.get(DOMAIN),
            await ada.post(DOMAIN, "<pipe/>"),
            await ada.get(DEFAULT),
            await ada.send(DEFAULT, "x"),
        ):
            assert (reply.status, reply.headers["restms-error"]) == (403, "forbidden")


async def test_domain_with_types_answers_nothing_unless_it_is_asked_to_count(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    reply = await caller.send(DEFAULT, "x", address=pipe.name)
    assert (reply.status, reply.body, "content-type" in reply.headers, "location" in reply.headers) == (
        200,
        b"",
        False,
        False,
    )
    document = f'<message address="{pipe.name}"/><message address="nowhere"/>'
    reply = await caller.post(DEFAULT, document, Prefer="return=representation")
    assert [message.count for message in read(reply).messages] == ["1", "0"]


async def test_user_who_may_not_write_or_configure_is_refused(broker: Broker) -> None:
    broker.set_users({"ada": User(password="ada", permissions={"*": Permission("^pipe-", "^pipe-", "^pipe-")})})
    ada = Caller(broker, "ada")
    assert (await ada.post(DOMAIN, '<feed name="x" type="topic"/>')).status == 403
    assert (await ada.send("/restms/feed/amq.topic", "x")).status == 403
    assert (await ada.post("/restms/feed/amq.topic", b"blob", Content_Type="image/png")).status == 403
    pipe = await ada.make_pipe()
    assert (await ada.post(pipe.path, '<join feed="/restms/feed/amq.topic"/>')).status == 403
    reply = await ada.send(DEFAULT, "x", address=pipe.name)
    assert (reply.status, reply.body) == (
        403,
        b"the user may not post to feed 'default'; an administrator can grant the right to write 'amq.default'\n",
    )
    broker.domain_ref.ask_nowait(DeclareQueue("work", QueueOptions(), broker.session))
    reply = await ada.send("/restms/feed/work", "x")
    assert (reply.status, b"may not post to feed 'work'" in reply.body) == (403, True)
    reply = await ada.post(pipe.path, '<join feed="/restms/feed/work"/>')
    assert (reply.status, b"may not read feed 'work'" in reply.body) == (403, True)


@pytest.mark.parametrize("type_", ["", "ondemand"])
async def test_pipe_needs_the_right_to_configure_and_to_read_it(broker: Broker, type_: str) -> None:
    def allow(configure: str, read: str) -> Caller:
        broker.set_users({"ada": User(password="ada", permissions={"*": Permission(configure, "^pipe-", read)})})
        return Caller(broker, "ada")

    for ada in (allow("^feed-", "^pipe-"), allow("^pipe-", "^feed-")):
        assert (await ada.post(DOMAIN, f'<pipe type="{type_}"/>')).status == 403
    pipe = await allow("^pipe-", "^pipe-").make_pipe(type_)
    ada = allow("^feed-", "^pipe-")
    assert (await ada.get(pipe.path)).status == 200
    assert (await ada.put(pipe.path, '<pipe title="mine"/>')).status == 403
    assert (await ada.delete(pipe.path)).status == 403
    assert (await allow("^pipe-", "^feed-").delete(pipe.path)).status == 200


async def test_pipe_whose_reader_has_lost_the_right_to_it_says_so_in_words_of_restms(broker: Broker) -> None:
    broker.set_users({"ada": User(password="ada", permissions={"*": ALL})})
    pipe = await Caller(broker, "ada").make_pipe()
    broker.set_users({"ada": User(password="ada", permissions={"*": Permission("", "", "^feed-")})})
    reply = await Caller(broker, "ada").get(pipe.path)
    assert (reply.status, f"may not read pipe '{pipe.name}'".encode() in reply.body) == (403, True)
