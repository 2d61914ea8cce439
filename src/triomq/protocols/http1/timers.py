"""The deadlines of one connection, without a clock: time only comes in with ``look(now)``.

Nothing is set anew with each request: now and then somebody looks whether what is waited for is still the same. So a
deadline is late by one interval at most, and a request costs nothing.
"""

from typing import Final, Literal, TypeAlias

from triomq.protocols.http1.settings import Settings

LOOK: Final = 5.0
"""Seconds between two looks: half of the time that a head may take."""

IDLE_LOOK: Final = 15.0
"""The same between two requests: ten thousand idle connections then take half a percent of a processor."""

Waited: TypeAlias = Literal["first", "head", "request", "body", ""]
"""What the peer is to bring: its first request, the rest of a head, another request, the rest of a body, or nothing."""


class Timers:
    """Owned by one engine.

    Args:
        now: The present moment.
        settings: How long one waits for what.
    """

    __slots__ = ("_bytes", "_for", "_settings", "_since", "next")

    def __init__(self, now: float, settings: Settings) -> None:
        self._settings = settings
        self._for: tuple[Waited, int] = ("first", 0)
        self._since = now  # when that began, or was first seen
        self._bytes = 0
        self.next = now + LOOK
        """When to look next."""

    def look(self, now: float, waited: Waited, count: int, received: int) -> bool:
        """Return whether the peer has taken too long.

        Args:
            now: The present moment.
            waited: What it is to bring.
            count: How many requests there were.
            received: Bytes of the body that are here.
        """
        self.next = now + (IDLE_LOOK if waited == "request" else LOOK)
        if (waited, count) != self._for:
            self._for, self._since, self._bytes = (waited, count), now, received
            return False
        seconds = now - self._since
        if waited == "body":
            brought, self._bytes, self._since = received - self._bytes, received, now
            return brought < seconds * self._settings.body_rate
        if waited == "request":
            return seconds >= self._settings.idle_timeout
        return waited != "" and seconds >= self._settings.head_timeout

    def forgive(self, now: float) -> None:
        """Let the time begin anew: nothing was read, so the peer could bring nothing."""
        self.next, self._for = now + LOOK, ("", 0)
