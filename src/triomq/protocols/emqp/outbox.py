"""What an engine has to be sent, until its driver takes it."""

from collections.abc import Iterable

from triomq.protocols.emqp.frames import Frames


class Outbox:
    """Owned by one engine, and looked at by its driver: attributes, because a property costs a call.

    ``messages`` wait to be sent, in order; ``notices`` are those that released clients never read, and that can be
    lost where a peer takes nothing: send them behind the messages, or drop them. ``finished`` is whether nothing
    follows them.
    """

    __slots__ = ("finished", "has_sent", "messages", "notices")

    def __init__(self) -> None:
        self.messages: list[Frames] = []
        self.notices: list[Frames] = []
        self.finished = False
        self.has_sent = False  # for the heartbeats

    def put(self, frames: Frames) -> None:
        """Add a message."""
        self.messages.append(frames)
        self.has_sent = True

    def put_all(self, messages: Iterable[Frames]) -> None:
        """Add messages."""
        self.messages += messages
        self.has_sent = True

    def take(self) -> list[Frames]:
        """Remove and return the messages."""
        messages, self.messages = self.messages, []
        return messages

    def take_notices(self) -> list[Frames]:
        """Remove and return the notices."""
        notices, self.notices = self.notices, []
        return notices
