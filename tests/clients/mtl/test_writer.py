"""A client's writer: confirms, rejections, and what is sent again when the flow was lost."""

import pytest
import trio
import trio.testing

from clients.mtl.stub import StubServer
from peers.mtl_peer import Command
from triomq.clients import BasicProperties, Reconnect, open_mtl
from triomq.errors import AccessRefused, Disconnected, LimitExceeded, LocalProtocolError, NotFound, Refused

SOON = Reconnect(delay=0.01, max_delay=0.05, jitter=0.0)


def confirm_all(stub: StubServer) -> None:
    """Have the server confirm each content when it comes."""

    def react(command: Command) -> None:
        if command.kind == "content":
            stub.tell(Command("confirm", command.sequence))

    stub.react = react


async def test_publishing_waits_for_the_confirm(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, mtl.open_writer("q") as writer, trio.open_nursery() as nursery:
        nursery.start_soon(writer.publish, b"one")
        content = await stub.heard("content")
        assert (content.body, content.name) == (b"one", "")
        assert mtl.statistics().outstanding == 1
        stub.tell(Command("confirm", content.sequence))
    assert writer.outstanding == 0


async def test_content_has_address_properties_and_resource(stub: StubServer, url: str) -> None:
    confirm_all(stub)
    properties = BasicProperties(content_type="text/plain", delivery_mode=2, headers={"a": 1})
    async with open_mtl(url) as mtl, mtl.open_writer("q", "r") as writer:
        await writer.publish(b"one", "a.b", properties, resource="r")
        content = await stub.heard("content")
        with pytest.raises(LocalProtocolError, match="and not ''"):
            await writer.publish(b"two")
        with pytest.raises(LocalProtocolError, match="and not 's'"):
            await writer.publish(b"two", resource="s")
    assert content.name == "r"
    assert content.properties == {
        "content-type": "text/plain",
        "delivery-mode": 2,
        "address": "a.b",
        "headers": {"a": 1},
    }


async def test_writer_for_all_resources_wants_a_name_for_each_content(stub: StubServer, url: str) -> None:
    confirm_all(stub)
    async with open_mtl(url) as mtl, mtl.open_writer() as writer:
        with pytest.raises(LocalProtocolError, match="say which"):
            await writer.publish(b"")
        await writer.publish(b"", resource="any")
        assert (await stub.heard("content")).name == "any"


@pytest.mark.parametrize(
    ("recycle", "error", "text"), [(True, LimitExceeded, "no room"), (False, Refused, "rejects a content")]
)
async def test_rejected_content_is_an_error(
    stub: StubServer, url: str, recycle: bool, error: type[Exception], text: str
) -> None:
    async with open_mtl(url) as mtl, mtl.open_writer("q") as writer, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def publish() -> None:
            with pytest.raises(error, match=text):
                await writer.publish(b"one")

        content = await stub.heard("content")
        stub.tell(Command("reject", content.sequence, recycle=recycle))


async def test_pipeline_has_its_window_and_one_confirm_may_be_for_many(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, mtl.open_writer("q") as writer:
        numbers: list[int] = []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def publish() -> None:
                async with writer.open_pipeline(limit=10) as pipeline:
                    for number in range(25):
                        await pipeline.publish(b"%d" % number)
                assert pipeline.count_confirmed == 25

            while len(numbers) < 25:
                numbers.append((await stub.heard("content")).sequence)
                if len(numbers) % 5 == 0:
                    stub.tell(Command("confirm", numbers[-1], multiple=True))
        assert numbers == list(range(numbers[0], numbers[0] + 25))


async def test_pipeline_raises_what_was_rejected_and_ends_when_all_is_answered(stub: StubServer, url: str) -> None:
    def react(command: Command) -> None:
        if command.body == b"2":
            stub.tell(Command("reject", command.sequence, multiple=True))

    stub.react = react
    async with open_mtl(url) as mtl, mtl.open_writer("q") as writer:
        pipelines = []

        async def publish() -> None:
            async with writer.open_pipeline() as pipeline:
                pipelines.append(pipeline)
                for number in range(3):
                    await pipeline.publish(b"%d" % number)

        with pytest.raises(Refused):
            await publish()
        assert pipelines[0].outstanding == 0


async def test_what_was_not_confirmed_is_sent_again_under_its_number_on_the_lease_that_it_had(
    stub: StubServer, url: str
) -> None:
    async with open_mtl(url, reconnect=SOON) as mtl, mtl.open_writer("q") as writer, trio.open_nursery() as nursery:
        nursery.start_soon(writer.publish, b"one")
        first = await stub.heard("content")
        stub.tell(Command("confirm", first.sequence))
        nursery.start_soon(writer.publish, b"two")
        before = await stub.heard("content")
        await stub.restart()
        await stub.wait_asked("Connection.Writer", 2)
        assert stub.asked[-1][1]["lease"] == "lease 1"
        assert await stub.heard("content") == before
        stub.tell(Command("confirm", before.sequence))
        nursery.start_soon(writer.publish, b"three")
        third = await stub.heard("content")
        assert third.sequence > before.sequence
        stub.tell(Command("confirm", third.sequence))
        while mtl.statistics().outstanding:
            await trio.testing.wait_all_tasks_blocked()
        assert mtl.statistics().reconnects == 1
    assert stub.asked[-2][0] == "Connection.Release"


async def test_flow_that_the_server_knows_nothing_of_is_opened_again(stub: StubServer, url: str) -> None:
    stub.codes["lease"] = [b"200", b"403", b"200"]
    async with open_mtl(url, reconnect=SOON) as mtl, mtl.open_writer("q") as writer, trio.open_nursery() as nursery:
        nursery.start_soon(writer.publish, b"one")
        content = await stub.heard("content")
        stub.tell(Command("response", content.sequence, body=b"403"))
        assert await stub.heard("content") == content
        stub.tell(Command("confirm", content.sequence))
    assert stub.count("Connection.Writer") == 3


async def test_without_resending_the_fate_of_what_was_on_its_way_is_unknown(stub: StubServer, url: str) -> None:
    policy = Reconnect(delay=0.01, resend=False)
    async with open_mtl(url, reconnect=policy) as mtl, mtl.open_writer("q") as writer, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def publish() -> None:
            with pytest.raises(Disconnected, match="it has it, or not"):
                await writer.publish(b"one")

        await stub.heard("content")
        await stub.restart()


async def test_cancelled_publish_is_not_sent_again(stub: StubServer, url: str) -> None:
    async with open_mtl(url, reconnect=SOON) as mtl, mtl.open_writer("q") as writer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.publish, b"one")
            await stub.heard("content")
            nursery.cancel_scope.cancel()
        await stub.restart()
        confirm_all(stub)
        await writer.publish(b"two")
        assert (await stub.heard("content")).body == b"two"


async def test_without_confirms_publishing_does_not_wait_and_the_block_waits_for_the_broker(
    stub: StubServer, url: str
) -> None:
    async with open_mtl(url) as mtl:
        async with mtl.open_writer("q", confirm="none") as writer:
            for number in range(1000):
                await writer.publish(b"%d" % number)
        bodies = [(await stub.heard("content")).body for _ in range(1000)]
    assert bodies == [b"%d" % number for number in range(1000)]


async def test_refusal_of_an_unconfirmed_content_is_raised_by_a_later_call(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, mtl.open_writer("q", confirm="none") as writer:
        await writer.publish(b"one")
        content = await stub.heard("content")
        stub.tell(Command("response", content.sequence, body=b"413"))

        async def publish_more() -> None:
            while True:
                await writer.publish(b"more")
                await trio.lowlevel.checkpoint()

        with pytest.raises(LimitExceeded, match=f"413 .* content {content.sequence}"):
            await publish_more()
        await writer.publish(b"and on")
        with pytest.raises(LocalProtocolError, match="this writer has none"):
            async with writer.open_pipeline():
                pass


@pytest.mark.parametrize(("code", "error"), [(403, AccessRefused), (404, NotFound), (501, Refused)])
async def test_refused_lease_is_an_error_of_opening(
    stub: StubServer, url: str, code: int, error: type[Exception]
) -> None:
    stub.answers["Connection.Writer"] = [(code, {"status": "No"})]
    async with open_mtl(url) as mtl:
        with pytest.raises(error, match=f"{code} No"):
            async with mtl.open_writer("q"):
                pass
        async with mtl.open_writer("q"):
            assert mtl.statistics().writers == 1


async def test_refused_lease_after_a_loss_ends_the_writer(stub: StubServer, url: str) -> None:
    async with open_mtl(url, reconnect=SOON) as mtl, mtl.open_writer("q") as writer:
        stub.answers["Connection.Writer"] = [(404, {"status": "Not Found", "reason": "it is gone"})]
        await stub.restart()
        with pytest.raises(NotFound, match="it is gone"):
            await writer.publish(b"one")
        with pytest.raises(NotFound, match="it is gone"):
            await writer.publish(b"one")


async def test_writer_is_closed_behind_its_block(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl:
        async with mtl.open_writer("q") as writer:
            pass
        with pytest.raises(LocalProtocolError, match="block was left"):
            await writer.publish(b"one")
        assert mtl.statistics().writers == 0
