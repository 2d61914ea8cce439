from core.harness import Harness, publish
from triomq.core import Browse


async def test_browser_does_not_see_what_feeds_can_take(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()

    def publish_and_browse() -> None:
        harness.feed(state, consumer, messages=1)
        publish(state, b"1", b"2")
        assert [entry.id for entry in state.ref.ask_nowait(Browse())] == [2]

    harness.turn(publish_and_browse)
