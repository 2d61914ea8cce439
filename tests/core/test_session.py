import pytest
import trio

from triomq.core import Feed, InExclusiveUse, QueueOptions, Session

from .cast import House, open_house, publish, settle

EXCLUSIVE = QueueOptions(exclusive=True)


def feed_of(house: House, name: str) -> Feed:
    return Feed(house.queue(name).ref, house.consumer().ref)


async def test_a_session_ends_with_its_last_connection() -> None:
    async with open_house() as house:
        session = Session(house.domain, house.directory, user="anna", origin="there")
        session.attach()
        session.attach()
        session.detach()
        assert not session.ended
        session.detach()
        assert session.ended
        assert (session.user, session.origin) == ("anna", "there")


async def test_what_is_exclusively_its_own_goes_with_it_and_the_rest_stays() -> None:
    async with open_house() as house:
        session = house.new_session()
        house.queue("mine", EXCLUSIVE, session)
        shared = house.queue("shared", session=session)
        assert list(session.queues) == ["mine"]
        feed = Feed(shared.ref, house.consumer().ref)
        session.open_feed(feed)
        session.detach()
        assert list(house.directory.queues) == ["shared"]
        assert shared.statistics().feeds == 0
        session.end()


async def test_a_feed_that_is_closed_keeps_what_it_has_not_settled() -> None:
    async with open_house() as house:
        store, consumer = house.queue(), house.consumer()
        feed = Feed(store.ref, consumer.ref)
        house.session.open_feed(feed)
        publish(store, b"1")
        house.session.close_feed(feed)
        house.session.close_feed(feed)
        assert (store.statistics().feeds, store.statistics().unsettled) == (0, 1)
        settle(consumer.batches[0])
        assert store.statistics().unsettled == 0


async def test_only_its_own_feeds_are_closed() -> None:
    async with open_house() as house:
        feed = feed_of(house, "q")
        house.session.open_feed(feed)
        house.new_session().close_feed(feed)
        assert house.queue("q").statistics().feeds == 1


async def test_a_feed_that_its_queue_closed_is_forgotten() -> None:
    async with open_house() as house:
        feed = feed_of(house, "q")
        house.session.open_feed(feed)
        house.session.forget_feed(feed)
        house.session.forget_feed(feed)
        house.session.end()
        assert house.directory.queues["q"].statistics().feeds == 1


async def test_a_feed_that_is_refused_is_not_owned() -> None:
    async with open_house() as house:
        store = house.queue()
        house.feed(store, house.consumer(), exclusive=True)
        feed = feed_of(house, "q")
        with pytest.raises(InExclusiveUse):
            house.session.open_feed(feed)
        assert not house.session._feeds


async def test_a_feed_on_a_queue_that_is_being_restarted_would_block() -> None:
    async with open_house() as house:
        store = house.queue()
        feed = Feed(store.ref, house.consumer().ref)

        def crash_and_open() -> None:
            house.crash_nowait(store)
            house.session.open_feed(feed)

        with pytest.raises(trio.WouldBlock):
            house.turn(crash_and_open)
        await store.ref.wait_running()


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
async def test_what_is_its_own_lives_until_the_last_connection_whichever_that_is(order: str) -> None:
    async with open_house() as house:
        session = Session(house.domain, house.directory)
        for _ in order:
            session.attach()
        house.queue("mine", EXCLUSIVE, session)
        feed = feed_of(house, "other")
        session.open_feed(feed)
        for _ in order[:-1]:
            session.detach()
            assert not session.ended
            assert "mine" in house.directory.queues
            assert house.queue("other").statistics().feeds == 1
        session.detach()
        assert "mine" not in house.directory.queues
        assert house.queue("other").statistics().feeds == 0


async def test_a_feed_that_moves_takes_its_messages_with_it_and_belongs_to_the_session() -> None:
    async with open_house() as house:
        store, old, new = house.queue(), house.consumer(), house.consumer()
        first, second = Feed(store.ref, old.ref), Feed(store.ref, new.ref)
        house.session.open_feed(first)
        publish(store, b"1")
        house.session.move_feed(first, second)
        publish(store, b"2")
        assert (old.take(), new.take()) == ([b"1"], [b"2"])
        house.session.move_feed(first, second)  # it has none like this any more
        house.session.close_feed(second)
        assert store.statistics().feeds == 0


async def test_feeds_are_known_by_who_gets_their_messages() -> None:
    async with open_house() as house:
        store, mine, other = house.queue(), house.consumer(), house.consumer()
        feeds = [Feed(store.ref, consumer.ref) for consumer in (mine, other, mine)]
        for feed in feeds:
            house.session.open_feed(feed)
        assert house.session.feeds_to(mine.ref) == [feeds[0], feeds[2]]
        house.session.forget_feed(feeds[0])
        assert house.session.feeds_to(mine.ref) == [feeds[2]]
