"""What is published to topics, as those get it who have subscribed."""

from typing import Final, Self

import trio

from triomq.protocols.emqp import TopicPublished

_INBOX: Final = 1000
"""Publications that wait in a subscription; a reader that is slower loses the oldest."""


class EMQPSubscription:
    """What is published to a topic; made by ``EMQPConnection.subscribe``, ends with its block.

    Several tasks may iterate over it; each gets other publications.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.lost = 0
        """Publications that were dropped here, since nobody took them in time."""
        self._words = topic.split(".")
        self._sender, self._receiver = trio.open_memory_channel[TopicPublished](_INBOX)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TopicPublished:
        return await self._receiver.receive()

    def matches(self, topic: str) -> bool:
        """Return whether a topic is one that this is about: several subscriptions may share what comes."""
        return _match(self._words, topic.split("."))

    def put(self, event: TopicPublished) -> None:
        """Add a publication, in place of the oldest if there is no room."""
        while True:
            try:
                self._sender.send_nowait(event)
                return
            except trio.WouldBlock:
                self._receiver.receive_nowait()
                self.lost += 1


def _match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_match(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _match(pattern[1:], words[1:])
