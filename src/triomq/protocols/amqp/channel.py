"""What an engine knows of one channel."""

from triomq.protocols.amqp.content import Assembly
from triomq.protocols.amqp.states import CHANNEL, ChannelPhase


class ChannelState:
    """Made by channel.open, owned by the engine's table, gone with close-ok.

    ``plain``: whether the fast readers may read the next frame: the channel is usable, no content is under way.
    ``failed``: whether the engine closes it, not the endpoint. ``_owed`` are answers to opens and closes of channels
    that had this number before, which the endpoint has yet to give. ``unanswered`` counts our closes that the peer has
    yet to answer, those of channels that had this number before among them.
    """

    __slots__ = (
        "_is_answered",
        "_owed",
        "assembly",
        "close_code",
        "close_text",
        "failed",
        "number",
        "plain",
        "state",
        "unanswered",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: ChannelPhase = "opening"
        self.assembly: Assembly | None = None
        self.plain = True
        self.close_code = 0
        self.close_text = ""
        self.failed = False
        self.unanswered = 0
        self._owed: list[str] = []
        self._is_answered = False

    def move(self, event: str) -> bool:
        """Follow the table; return whether it has this event here."""
        state = CHANNEL[self.state].get(event)
        if state is None:
            return False
        self._is_answered |= event == "sent channel.open-ok"
        if state == "closed" and self.unanswered:
            state = "crossed"
        self.state = state  # type: ignore[assignment]  # the table holds nothing else
        if state not in ("opening", "open"):
            self.drop_content()
            self.plain = False
        return True

    def reopened(self) -> "ChannelState":
        """Make the channel that is opened under this number while a close of this one is still to be answered."""
        channel = ChannelState(self.number)
        channel._owed, channel.unanswered = self._owed, self.unanswered
        if self.state == "crossed":
            return channel
        if not self._is_answered:
            channel._owed.append("channel.open-ok")
        channel._owed.append("channel.close-ok")
        return channel

    @property
    def is_behind(self) -> bool:
        """Whether the endpoint has yet to end a channel that had this number before: what it sends is for that one."""
        return bool(self._owed)

    def owes(self, name: str) -> bool:
        """Return whether this method is owed to a channel that had the number before; then it is sent now."""
        if not self._owed or self._owed[0] != name:
            return False
        self._owed.pop(0)
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
        """Drop a content that will not be finished."""
        if self.assembly is not None:
            self.assembly.drop()
            self.assembly = None
