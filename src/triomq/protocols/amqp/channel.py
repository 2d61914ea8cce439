"""What an engine knows of one channel."""

from triomq.protocols.amqp.content import Assembly
from triomq.protocols.amqp.states import CHANNEL, ChannelState

__all__ = ["Channel"]


class Channel:
    """Made by channel.open, owned by the engine's table, gone with close-ok.

    ``plain`` says that the fast readers may read the next frame: the channel is usable, no content is under way.
    ``failed`` says that the engine closes it, not the endpoint.
    """

    __slots__ = ("assembly", "close_code", "close_text", "failed", "number", "plain", "state")

    def __init__(self, number: int) -> None:
        """Begin as an opening channel."""
        self.number = number
        self.state: ChannelState = "opening"
        self.assembly: Assembly | None = None
        self.plain = True
        self.close_code = 0
        self.close_text = ""
        self.failed = False

    def move(self, event: str) -> bool:
        """Follow the table; say whether it has this event here."""
        state = CHANNEL[self.state].get(event)
        if state is None:
            return False
        self.state = state  # type: ignore[assignment]  # the table holds nothing else
        if state not in ("opening", "open"):
            self.drop_content()
            self.plain = False
        return True

    def begin_content(self, assembly: Assembly) -> None:
        """Expect the frames of a content."""
        self.assembly = assembly
        self.plain = False

    def end_content(self) -> None:
        """Expect a method again."""
        self.assembly = None
        self.plain = True

    def drop_content(self) -> None:
        """Forget a content that will not be finished."""
        if self.assembly is not None:
            self.assembly.drop()
            self.assembly = None
