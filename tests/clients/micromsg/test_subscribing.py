"""Subscriptions: messages, acks, what the peer refuses, and what becomes of all when the connection is lost."""

from typing import Any

import pytest
import trio
import trio.testing

from clients.micromsg.stub import SETTINGS, Place, StubPeer, both, open_connection, open_pair
from triomq.clients import FilterCondition, MicroMsgConnection, MicroMsgSubscription, MicroMsgUrl
from triomq.errors import ConsumerCancelled, LocalProtocolError, NotFound, Refused, RemoteProtocolError
from triomq.protocols.micromsg import MessagesAcked, Settings, SubscribeAsked, UnsubscribeAsked, encode_properties

AGAIN = encode_properties({"redelivered": 1})


async def take(subscription: MicroMsgSubscription, count: int) -> list[bytes]:
    return [(await anext(subscription)).body for _ in range(count)]


class Subscribed:
    """One subscription of a client, with the peer that serves it.

    Args:
        destination: What is subscribed to.
        options: Further arguments of ``subscribe``.
    """

    def __init__(self, destination: str, **options: Any) -> None:
        self._destination = destination
        self._options = options
        self.place = Place()
        self.asked: SubscribeAsked
        self.peer: StubPeer
        self.micromsg: MicroMsgConnection
        self.messages: MicroMsgSubscription

    async def __aenter__(self) -> "Subscribed":
        self._nursery = trio.open_nursery()
        nursery = await self._nursery.__aenter__()
        accepted = trio.Event()

        async def accept() -> None:
            self.peer = await self.place.accept()
            self.asked = await self.peer.accept_subscription()
            accepted.set()

        nursery.start_soon(accept)
        self._connection = open_connection(self.place)
        self.micromsg = await self._connection.__aenter__()
        self._subscription = self.micromsg.subscribe(self._destination, **self._options)
        self.messages = await self._subscription.__aenter__()
        await accepted.wait()
        return self

    async def leave(self) -> None:
        """Leave the block of the subscription."""

        async def accept_end() -> None:
            await self.peer.accept_end()

        async with both(accept_end):
            await self._subscription.__aexit__(None, None, None)
        del self._subscription

    async def __aexit__(self, *error: Any) -> None:
        if hasattr(self, "_subscription"):
            await self._subscription.__aexit__(None, None, None)
        await self._connection.__aexit__(None, None, None)
        await self._nursery.__aexit__(None, None, None)


async def test_messages_come_in_order_with_their_properties(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        await served.peer.send("queue/jobs", b"a", b"b", properties=encode_properties({"priority": 5}))
        await served.peer.send("queue/jobs", b"c", properties=AGAIN)
        found = [await anext(served.messages) for _ in range(3)]
        assert [(each.body, dict(each.properties), each.redelivered) for each in found] == [
            (b"a", {"priority": 5}, False),
            (b"b", {"priority": 5}, False),
            (b"c", {"redelivered": 1}, True),
        ]
        assert {each.destination for each in found} == {"queue/jobs"}
        assert repr(found[0]) == "<MicroMsgDelivery 'queue/jobs' 1 bytes>"


async def test_what_is_accepted_together_goes_in_one_ack(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        await served.peer.send("queue/jobs", b"a", b"b", b"c")
        found = [await anext(served.messages) for _ in range(3)]
        for each in (found[2], found[0], found[1], found[1]):
            each.accept()
        assert all(each.accepted for each in found)
        assert await served.peer.expect(MessagesAcked) == MessagesAcked(up_to=3, count=3)


async def test_ack_reaches_no_further_than_what_is_accepted_in_a_row(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        await served.peer.send("queue/jobs", b"a", b"b", b"c")
        first, second, third = [await anext(served.messages) for _ in range(3)]
        first.accept()
        third.accept()
        assert await served.peer.expect(MessagesAcked) == MessagesAcked(up_to=1, count=1)
        with second:
            pass
        assert await served.peer.expect(MessagesAcked) == MessagesAcked(up_to=3, count=2)


async def test_block_that_fails_accepts_nothing(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        await served.peer.send("queue/jobs", b"a")
        delivery = await anext(served.messages)
        with pytest.raises(ZeroDivisionError), delivery:
            raise ZeroDivisionError
        assert not delivery.accepted


async def test_several_tasks_get_different_messages(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        found = list[bytes]()

        async def work() -> None:
            async for message in served.messages:
                message.accept()
                found.append(message.body)
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(work)
            await served.peer.send("queue/jobs", b"a", b"b", b"c")
            await trio.sleep(0.5)
            assert sorted(found) == [b"a", b"b", b"c"]
            nursery.cancel_scope.cancel()


async def test_filter_is_a_text_or_conditions(autojump_clock: object) -> None:
    conditions = (FilterCondition("priority", "at-least", 5), FilterCondition("customer", "starts-with", "ad"))
    for given in ("priority>=N5;customer<Tad", conditions, list(conditions)):
        async with Subscribed("topic/orders", filter=given, id="s1") as served:
            assert served.asked.destination == "topic/orders"
            assert served.asked.conditions == conditions
            assert served.asked.subscription_id == "s1"
            assert (served.messages.conditions, served.messages.id) == (conditions, "s1")


async def test_filter_that_is_none_is_refused_before_anybody_is_asked(autojump_clock: object) -> None:
    async with open_pair(Place()) as (micromsg, _):
        for wrong in ("priority", "priority<=Tlow", "a&N5"):
            with pytest.raises(LocalProtocolError, match="condition"):
                async with micromsg.subscribe("topic/orders", filter=wrong):
                    pass
        assert micromsg.statistics().subscriptions == 0


async def test_refusal_is_an_error_and_the_connection_goes_on(autojump_clock: object) -> None:
    async with open_pair(Place()) as (micromsg, peer):

        async def refuse() -> None:
            for code, text in ((404, "no topic 'none'"), (400, "bad filter")):
                asked = await peer.expect(SubscribeAsked)
                peer.engine.answer_command(asked.number, code, text)
            await peer.accept_subscription()
            await peer.accept_end()

        async with both(refuse):
            with pytest.raises(NotFound, match="404 no topic 'none'"):
                async with micromsg.subscribe("topic/none"):
                    pass
            with pytest.raises(RemoteProtocolError, match="400 bad filter"):
                async with micromsg.subscribe("topic/none"):
                    pass
            async with micromsg.subscribe("topic/none"):
                assert micromsg.statistics().subscriptions == 1


async def test_destination_is_subscribed_once(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        for same in ("queue/jobs", "jobs"):
            with pytest.raises(LocalProtocolError, match="open another connection"):
                async with served.micromsg.subscribe(same):
                    pass


async def test_messages_of_a_bare_name_are_those_of_the_queue(autojump_clock: object) -> None:
    async with Subscribed("jobs") as served:
        await served.peer.send("queue/jobs", b"a")
        await served.peer.send("jobs", b"b")
        assert await take(served.messages, 2) == [b"a", b"b"]


async def test_subscription_that_the_broker_ends_says_so_behind_what_has_come(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        await served.peer.send("queue/jobs", b"a")
        served.peer.engine.answer_command(served.asked.number, 404, "the queue was deleted")
        await served.peer.flush()
        assert await take(served.messages, 1) == [b"a"]
        for _ in range(2):
            with pytest.raises(ConsumerCancelled, match=r"has ended 'queue/jobs': 404 the queue was deleted"):
                await anext(served.messages)


async def test_leaving_what_the_broker_has_ended_frees_the_window_too(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        await served.peer.send("queue/jobs", b"a", b"b")
        served.peer.engine.answer_command(served.asked.number, 404, "the queue was deleted")
        await served.peer.flush()
        assert await take(served.messages, 2) == [b"a", b"b"]
        with pytest.raises(ConsumerCancelled):
            await anext(served.messages)
        await served._subscription.__aexit__(None, None, None)
        del served._subscription
        assert await served.peer.expect(MessagesAcked) == MessagesAcked(2, 2)


async def test_leaving_the_block_frees_the_window_behind_the_unsubscribe(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:
        await served.peer.send("queue/jobs", b"a", b"b", b"c")
        delivery = await anext(served.messages)
        await served.leave()
        await served.peer.send("queue/jobs", b"d", b"e")  # as if it had been on its way
        acked = 0
        while acked < 3:
            acked += (await served.peer.expect(MessagesAcked)).count
        delivery.accept()  # too late, and no harm
        with pytest.raises(StopAsyncIteration):
            await anext(served.messages)


async def test_what_comes_between_unsubscribe_and_its_answer_is_acked_and_dropped(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs") as served:

        async def answer_late() -> None:
            await served.peer.send("queue/jobs", b"a", b"b")
            await served.peer.accept_end()
            assert await served.peer.expect(MessagesAcked) == MessagesAcked(2, 2)

        async with both(answer_late):
            await served._subscription.__aexit__(None, None, None)
        del served._subscription
        assert served.micromsg.statistics().buffered == 0


async def test_peer_that_answers_no_commands_may_send_on_for_a_while(autojump_clock: object) -> None:
    optional = tuple(each for each in SETTINGS.optional if each.name != "x-reply")
    async with open_pair(Place(Settings(identity="stub", heartbeat=0, optional=optional))) as (micromsg, peer):
        async with micromsg.subscribe("topic/orders"):
            await peer.expect(SubscribeAsked)
        await peer.send("topic/orders", b"a", b"b")
        await peer.expect(UnsubscribeAsked)
        assert await peer.expect(MessagesAcked) == MessagesAcked(2, 2)
        assert micromsg.statistics().buffered == 0
        async with micromsg.subscribe("topic/orders") as messages:
            await peer.send("topic/orders", b"c")
            assert await take(messages, 1) == [b"c"]


async def test_all_is_subscribed_again_when_the_connection_is_back(autojump_clock: object) -> None:
    async with Subscribed("queue/jobs", filter="", id="s1") as served:
        await served.peer.send("queue/jobs", b"a", b"b", b"c")
        first = await anext(served.messages)
        await served.peer.hang_up()
        again = await served.place.accept()
        asked = await again.accept_subscription()
        assert (asked.destination, asked.subscription_id) == ("queue/jobs", "s1")
        await again.send("queue/jobs", b"a", b"b", b"c", properties=AGAIN)
        assert await take(served.messages, 3) == [b"a", b"b", b"c"]
        first.accept()  # of the connection that was lost: it must not accept the new first one
        served.peer = again
        await served.leave()


async def test_messages_that_come_with_the_answer_of_a_connection_that_is_back_are_acked(
    autojump_clock: object,
) -> None:
    async with Subscribed("queue/jobs") as served:
        await served.peer.hang_up()
        again = await served.place.accept()
        asked = await again.expect(SubscribeAsked)
        again.engine.send_messages("queue/jobs", b"", [b"a"])
        again.engine.answer_command(asked.number, 200, "OK")
        again.engine.send_messages("queue/jobs", b"", [b"b"])
        await again.flush()
        for message in [await anext(served.messages) for _ in range(2)]:
            message.accept()
        assert await again.expect(MessagesAcked) == MessagesAcked(2, 2)


@pytest.mark.parametrize(("id_", "kept"), [("", True), ("s1", False)])
async def test_what_waits_of_a_topic_is_dropped_only_if_the_broker_has_it(
    autojump_clock: object, id_: str, kept: bool
) -> None:
    async with Subscribed("topic/orders", id=id_) as served:
        await served.peer.send("topic/orders", b"a", b"b")
        await trio.testing.wait_all_tasks_blocked()
        await served.peer.hang_up()
        again = await served.place.accept()
        await again.accept_subscription()
        await again.send("topic/orders", b"c")
        assert await take(served.messages, 3 if kept else 1) == ([b"a", b"b", b"c"] if kept else [b"c"])


async def test_what_is_refused_when_the_connection_is_back_ends_its_subscription_alone(autojump_clock: object) -> None:
    async with Subscribed("topic/orders") as served:
        await served.peer.hang_up()
        again = await served.place.accept()
        asked = await again.expect(SubscribeAsked)
        again.engine.answer_command(asked.number, 404, "no topic 'orders'")
        await again.flush()
        with pytest.raises(NotFound, match="no topic 'orders'"):
            await anext(served.messages)
        async with both(lambda: served.micromsg.publish("queue/jobs", b"x")):
            await again.read(1)
            await again.ack(1)


async def test_subscribe_waits_for_a_connection_that_is_lost_meanwhile(autojump_clock: object) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):

        async def lose_once() -> None:
            await peer.expect(SubscribeAsked)
            await peer.hang_up()
            again = await place.accept()
            await again.accept_subscription()
            await again.send("queue/jobs", b"a")
            await again.accept_end()

        async with both(lose_once), micromsg.subscribe("queue/jobs") as messages:
            assert await take(messages, 1) == [b"a"]


async def test_peer_without_subscriptions_is_read_as_it_pushes(autojump_clock: object) -> None:
    names = [each for each in SETTINGS.optional if each.name in ("ack", "batch-ack")]
    place = Place(Settings(identity="stub", heartbeat=0, optional=tuple(names)))
    async with open_pair(place) as (micromsg, peer):
        with pytest.raises(Refused, match="knows no subscriptions"):
            async with micromsg.subscribe("queue/jobs"):
                pass
        await peer.send("", b"a", b"b")
        await peer.send("anywhere", b"c")
        async with micromsg.read_pushed() as pushed:
            with pytest.raises(LocalProtocolError, match="another block"):
                async with micromsg.read_pushed():
                    pass
            assert await take(pushed, 2) == [b"a", b"b"]
        async with micromsg.read_pushed() as pushed:
            message = await anext(pushed)
            assert (message.destination, message.body) == ("anywhere", b"c")


async def test_peer_that_nobody_takes_from_is_held_back(autojump_clock: object) -> None:
    url = MicroMsgUrl(identity="test", window=0)
    place = Place()
    async with open_pair(place, url) as (micromsg, peer):
        large = bytes(1024 * 1024)
        for _ in range(8):
            await peer.send("", large)
        await trio.testing.wait_all_tasks_blocked()
        assert 4 <= micromsg.statistics().buffered < 7
        async with micromsg.read_pushed() as pushed:
            for _ in range(8):
                message = await anext(pushed)
                assert message.accepted  # there are no acks
                message.accept()
