"""A client's reader: contents, how they are settled, and what comes again when the flow was lost."""

import pytest
import trio

from clients.mtl.stub import StubServer
from peers.mtl_peer import Command
from triomq.clients import BasicProperties, MTLReader, Reconnect, open_mtl
from triomq.errors import ConsumerCancelled, LocalProtocolError, NotFound

SOON = Reconnect(delay=0.01, max_delay=0.05, jitter=0.0)


def send(stub: StubServer, *bodies: bytes, first: int = 1, **properties: object) -> None:
    named = {key.replace("_", "-"): value for key, value in properties.items()}
    for sequence, body in enumerate(bodies, first):
        stub.tell(Command("content", sequence, "q", named, body=body))


async def take(reader: MTLReader, count: int) -> list[bytes]:
    return [(await anext(reader)).body for _ in range(count)]


async def test_contents_come_in_order_with_what_their_tables_say(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, mtl.open_reader("q", prefetch=7) as reader:
        assert stub.asked[-1] == ("Connection.Reader", {"resources": ["q"], "confirm": "full", "prefetch": 7})
        assert (await stub.heard("summon")).name == "q"
        send(stub, b"one", content_type="text/plain", address="a.b", redelivered=True, color="red")
        send(stub, b"two", b"three", first=2)
        delivery = await anext(reader)
        assert (delivery.body, delivery.resource, delivery.address, delivery.redelivered) == (b"one", "q", "a.b", True)
        assert delivery.properties == BasicProperties(content_type="text/plain", headers={"color": "red"})
        assert await take(reader, 2) == [b"two", b"three"]


async def test_what_is_accepted_together_is_confirmed_at_once(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, mtl.open_reader("q") as reader:
        send(stub, *(b"%d" % number for number in range(5)))
        deliveries = [await anext(reader) for _ in range(5)]
        for delivery in deliveries[:3]:
            delivery.accept()
        deliveries[4].accept()
        assert await stub.heard("confirm") == Command("confirm", 3, multiple=True)
        assert await stub.heard("confirm") == Command("confirm", 5)
        deliveries[3].requeue()
        assert await stub.heard("reject") == Command("reject", 4, recycle=True)
        deliveries[3].accept()  # once is enough


async def test_block_of_a_delivery_accepts_it_or_puts_it_back(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, mtl.open_reader("q") as reader:
        send(stub, b"one", b"two", b"three")
        with await anext(reader):
            pass
        assert await stub.heard("confirm") == Command("confirm", 1)
        with pytest.raises(KeyError), await anext(reader):
            raise KeyError
        assert await stub.heard("reject") == Command("reject", 2, recycle=True)
        (await anext(reader)).reject()
        assert await stub.heard("reject") == Command("reject", 3)


async def test_lost_flow_is_summoned_again_and_old_deliveries_settle_nothing(stub: StubServer, url: str) -> None:
    async with open_mtl(url, reconnect=SOON) as mtl, mtl.open_reader("q") as reader:
        await stub.heard("summon")
        send(stub, b"one", b"two")
        old = await anext(reader)
        await stub.restart()
        assert (await stub.heard("summon")).name == "q"
        assert stub.asked[-1][1]["lease"] == "lease 1"
        send(stub, b"one", b"two", redelivered=True)
        new = await anext(reader)
        assert new.redelivered
        old.accept()
        old.reject()
        new.accept()
        assert await stub.heard("confirm") == Command("confirm", 1)
        assert await take(reader, 1) == [b"two"]


async def test_resources_are_summoned_and_dismissed(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, mtl.open_reader() as reader:
        await reader.summon("q")
        assert (await stub.heard("summon")).name == "q"
        with pytest.raises(LocalProtocolError, match="is summoned"):
            await reader.summon("q")
        stub.codes["summon"] = [b"400"]
        with pytest.raises(NotFound, match="no 'r' that"):
            await reader.summon("r")
        await reader.dismiss("q")
        assert (await stub.heard("dismiss")).name == "q"
        with pytest.raises(LocalProtocolError, match="is not summoned"):
            await reader.dismiss("q")


async def test_resource_that_cannot_be_summoned_is_an_error_of_opening(stub: StubServer, url: str) -> None:
    stub.codes["summon"] = [b"400"]
    async with open_mtl(url) as mtl:
        with pytest.raises(NotFound, match="no 'q' that"):
            async with mtl.open_reader("q"):
                pass


async def test_resource_that_goes_ends_the_reader_behind_what_has_come(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, mtl.open_reader("q") as reader:
        summon = await stub.heard("summon")
        send(stub, b"one")
        stub.tell(Command("response", summon.sequence, body=b"404"))
        assert await take(reader, 1) == [b"one"]
        with pytest.raises(ConsumerCancelled, match="has ended 'q'"):
            await anext(reader)


async def test_without_confirms_a_slow_reader_holds_the_broker_back_and_is_not_taken_for_gone(
    stub: StubServer, url: str
) -> None:
    options = "?heartbeat=0.05&silence=0.2"
    async with open_mtl(url + options) as mtl, mtl.open_reader("q", confirm="none") as reader:
        count = 20_000
        send(stub, *(b"%d" % number for number in range(count)))
        for _ in range(6):  # that takes longer than the broker may be silent
            await stub.heard("ping")
        assert reader.buffered < 3000
        assert await take(reader, count) == [b"%d" % number for number in range(count)]
        assert mtl.statistics().reconnects == 0


async def test_silent_server_counts_as_gone(stub: StubServer, url: str) -> None:
    options = "?heartbeat=0.05&silence=0.2"
    async with open_mtl(url + options, reconnect=SOON) as mtl, mtl.open_reader("q"):
        stub.is_deaf = True
        await stub.wait_asked("Connection.Reader", 2)


async def test_iteration_ends_with_the_block(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl, trio.open_nursery() as nursery, mtl.open_reader("q") as reader:

        @nursery.start_soon
        async def read() -> None:
            assert [delivery async for delivery in reader] == []

        await stub.heard("summon")
