"""Publishing: windows, acks, and what becomes of messages when the connection is lost."""

from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from clients.micromsg.stub import NOBODY, SETTINGS, SOON, Place, StubPeer, bodies_of, both, open_connection, open_pair
from triomq.clients import MicroMsgUrl, Reconnect
from triomq.errors import Disconnected, LimitExceeded, LocalProtocolError, NotFound
from triomq.protocols.micromsg import HandshakeExtension, MicroMessageRun, Settings


async def test_publish_returns_when_the_peer_has_acked(autojump_clock: object) -> None:
    returned = list[int]()
    async with open_pair(Place()) as (micromsg, peer):

        async def publish() -> None:
            await micromsg.publish("queue/jobs", b"one", {"priority": 5, "sent": datetime(2026, 1, 1, tzinfo=UTC)})
            returned.append(1)

        async with both(publish):
            run = await peer.expect(MicroMessageRun)
            await trio.testing.wait_all_tasks_blocked()
            assert not returned
            assert micromsg.statistics().outstanding == 1
            await peer.ack(run.last)
        assert returned
        assert bodies_of(run) == [b"one"]
        assert run.shape.destination == "queue/jobs"
        assert run.shape.values == {"priority": 5, "sent": datetime(2026, 1, 1, tzinfo=UTC)}
        assert micromsg.statistics().outstanding == 0


async def test_no_more_are_on_their_way_than_the_window_has(autojump_clock: object) -> None:
    async with open_pair(Place()) as (micromsg, peer):

        async def publish() -> None:
            async with micromsg.open_pipeline() as pipeline:
                for number in range(20):
                    await pipeline.publish("queue/jobs", b"%d" % number)
                assert pipeline.outstanding == 20
                await pipeline.wait_confirmed()
                assert pipeline.count_confirmed == 20

        async with both(publish):
            assert await peer.read(8) == [b"%d" % number for number in range(8)]
            await peer.ack(5)
            assert await peer.read(5) == [b"%d" % number for number in range(8, 13)]
            await peer.ack(13)
            assert await peer.read(7) == [b"%d" % number for number in range(13, 20)]
            await peer.ack(20)


async def test_what_was_not_acked_is_sent_again_in_order(autojump_clock: object) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):

        async def publish() -> None:
            async with micromsg.open_pipeline() as pipeline:
                for number in range(12):
                    await pipeline.publish("queue/jobs", b"%d" % number)

        async with both(publish):
            await peer.read(8)
            await peer.ack(3)
            await peer.read(3)
            await peer.hang_up()
            again = await place.accept()
            assert await again.read(8) == [b"%d" % number for number in range(3, 11)]
            await again.ack(8)
            assert await again.read(1) == [b"11"]
            await again.ack(9)
        assert micromsg.statistics().reconnects == 1


async def test_message_whose_publisher_was_cancelled_is_not_sent_again(autojump_clock: object) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):
        async with trio.open_nursery() as nursery:

            async def publish(body: bytes) -> None:
                await micromsg.publish("queue/jobs", body)

            for body in (b"a", b"b", b"c"):
                nursery.start_soon(publish, body)
            assert sorted(await peer.read(3)) == [b"a", b"b", b"c"]
            nursery.cancel_scope.cancel()
        await peer.hang_up()

        async def publish_d() -> None:
            await micromsg.publish("queue/jobs", b"d")

        async with both(publish_d):
            again = await place.accept()
            assert await again.read(1) == [b"d"]
            await again.ack(1)


async def test_who_wants_nothing_sent_again_is_told_that_nobody_knows(autojump_clock: object) -> None:
    place = Place()
    policy = Reconnect(resend=False)
    async with both(lambda: hang_up_after(place, 1)), open_connection(place, policy=policy) as micromsg:
        with pytest.raises(Disconnected, match="it has it, or not"):
            await micromsg.publish("queue/jobs", b"x")


async def hang_up_after(place: Place, count: int) -> None:
    peer = await place.accept()
    await peer.read(count)
    await peer.hang_up()


async def test_without_acks_publish_returns_when_the_message_is_on_its_way(autojump_clock: object) -> None:
    async with open_pair(Place(), MicroMsgUrl(identity="test", window=0)) as (micromsg, peer):
        for number in range(100):
            await micromsg.publish("queue/jobs", b"%d" % number)
        assert await peer.read(100) == [b"%d" % number for number in range(100)]


async def test_without_acks_who_publishes_waits_for_a_peer_that_does_not_read(autojump_clock: object) -> None:
    async with open_pair(Place(), MicroMsgUrl(identity="test", window=0)) as (micromsg, peer):
        count = 0

        async def publish() -> None:
            nonlocal count
            while count < 40:
                await micromsg.publish("queue/jobs", bytes(100_000))
                count += 1

        async with both(publish):
            assert await peer.read(40) == [bytes(100_000)] * 40


@pytest.mark.parametrize(
    ("destination", "body", "properties", "reason"),
    [
        ("", b"", None, "takes 1 to 255 bytes"),
        ("queue/" + "x" * 250, b"", None, "takes 1 to 255 bytes"),
        ("queue/\n", b"", None, "can be printed"),
        ("queue/\udc00", b"", None, "can be printed"),
        ("queue/x", b"", {"Upper": "case"}, "Upper"),
        ("queue/x", b"", {"large": "x" * 70_000}, "room for 65535"),
        ("queue/x", b"", {"naive": datetime(2026, 1, 1)}, "zone"),
    ],
)
async def test_what_cannot_be_written_is_refused_at_once(
    autojump_clock: object, destination: str, body: bytes, properties: dict[str, str] | None, reason: str
) -> None:
    async with open_pair(Place()) as (micromsg, peer):
        with pytest.raises(LocalProtocolError, match=reason):
            await micromsg.publish(destination, body, properties)
        async with both(lambda: micromsg.publish("queue/jobs", b"good")):
            assert await peer.read(1) == [b"good"]
            await peer.ack(1)


async def test_body_that_is_no_bytes_is_refused(autojump_clock: object) -> None:
    async with open_pair(Place()) as (micromsg, _):
        with pytest.raises(TypeError, match=r"body\.encode"):
            await micromsg.publish("queue/jobs", "text")  # type: ignore[arg-type]


async def test_body_that_is_too_large_is_refused_and_the_others_go_on(autojump_clock: object) -> None:
    async with open_pair(Place(), MicroMsgUrl(identity="test", max_message=1000)) as (micromsg, peer):
        with pytest.raises(LimitExceeded, match="takes 1000 at most"):
            await micromsg.publish("queue/jobs", bytes(1001))
        async with both(lambda: micromsg.publish("queue/jobs", bytes(1000))):
            assert await peer.read(1) == [bytes(1000)]
            await peer.ack(1)


async def test_error_that_would_come_again_ends_all_for_good(autojump_clock: object) -> None:
    place = Place()

    async def refuse() -> None:
        peer = await place.accept()
        await peer.read(1)
        peer.engine.fail(404, "no queue 'nowhere'")
        await peer.flush()
        await peer.hang_up()

    async with both(refuse), open_connection(place) as micromsg:
        with pytest.raises(NotFound, match="404 no queue 'nowhere'"):
            await micromsg.publish("queue/nowhere", b"x")
        with pytest.raises(NotFound, match="404 no queue 'nowhere'"):
            await micromsg.publish("queue/jobs", b"x")
        with pytest.raises(NotFound):
            await micromsg.wait_connected()
        assert len(place.tries) == 1


async def test_error_of_a_peer_that_has_no_room_is_tried_again_ever_more_slowly(autojump_clock: object) -> None:
    place = Place()

    async def be_busy() -> None:
        for _ in range(3):
            peer = await place.accept()
            await peer.read(1)
            peer.engine.fail(503, "queue 'jobs' is full")
            await peer.flush()
            await peer.hang_up()
        peer = await place.accept()
        assert await peer.read(1) == [b"x"]
        await peer.ack(1)

    async with both(be_busy), open_connection(place) as micromsg:
        await micromsg.publish("queue/jobs", b"x")
        first = place.tries[0]
        assert [round(time - first) for time in place.tries] == [0, 1, 3, 7]


async def test_publisher_waits_while_there_is_no_peer(autojump_clock: object) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):
        await peer.hang_up()
        await micromsg.wait_disconnected()

        async def publish() -> None:
            async with micromsg.open_pipeline(limit=5000) as pipeline:
                for number in range(3000):
                    await pipeline.publish("queue/jobs", b"%d" % number)

        async with both(publish):
            again = await place.accept()
            found = list[bytes]()
            while len(found) < 3000:
                run = await again.expect(MicroMessageRun)
                found += bodies_of(run)
                await again.ack(run.last)
            assert found == [b"%d" % number for number in range(3000)]


async def test_messages_behind_the_block_are_refused(autojump_clock: object) -> None:
    async with open_pair(Place()) as (micromsg, _):
        pass
    with pytest.raises(LocalProtocolError, match="closed when its block was left"):
        await micromsg.publish("queue/jobs", b"x")


async def test_json_is_agreed_on_when_it_is_asked_for(autojump_clock: object) -> None:
    json = HandshakeExtension("json")
    place = Place(Settings(identity="stub", heartbeat=0, optional=(*SETTINGS.optional, json)))
    peers = list[StubPeer]()

    async def accept() -> None:
        peers.append(await place.accept())
        assert (await peers[0].expect(MicroMessageRun)).shape.values == {"content-type": "application/json"}
        await peers[0].ack(1)

    async with both(accept), open_connection(place, NOBODY, SOON, (json,)) as micromsg:
        assert "json" in [each.name for each in micromsg.extensions]
        await micromsg.publish("queue/jobs", b"{}", {"content-type": "application/json"})
