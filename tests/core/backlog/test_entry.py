from core.harness import Harness
from triomq.core import Browse

from ..harness import HEAD, publish


async def test_entry_shows_a_message_in_its_place(harness: Harness) -> None:
    queue = harness.queue()
    publish(queue, b"1", b"2")
    entry = queue.ref.ask_nowait(Browse())[1]
    assert (entry.id, entry.attempts, entry.deadline) == (2, 0, float("inf"))
    assert (entry.message.head, entry.message.content) == (HEAD, b"2")
