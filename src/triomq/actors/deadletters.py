"""Where messages go that nobody will handle: a bounded ring to look at, and a feed to follow."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import trio

from triomq.actors.events import DeadLettered, EventStream, EventSubscription

if TYPE_CHECKING:
    from triomq.actors.messages import Message
    from triomq.actors.ref import Ref
    from triomq.actors.system import System

logger = logging.getLogger("triomq.actors")

Reason = Literal["stopped", "crashed", "interrupted", "refused", "mailbox full"]
"""Why a message is dead: its actor had stopped; it crashed its actor alone; its async handler was interrupted;
its handler refused it and nobody waited for the answer; its mailbox was full and the overflow policy dropped it."""

KEPT: Final = 1_000
"""Dead letters kept to look at; enough to see a pattern, too few to be a leak."""


class DeadLetter(msgspec.Struct, frozen=True):
    """One message that nobody will handle."""

    message: Message
    ref: Ref
    """Whom it was for."""
    reason: Reason
    error: BaseException
    time: float
    """When it was given up, in seconds of ``trio.current_time()``."""


class DeadLetters:
    """The dead letters of one system; ``system.dead_letters``."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._ring: deque[DeadLetter] = deque(maxlen=KEPT)
        self._feed: EventStream[DeadLetter] = EventStream()
        self.count = 0
        """How many there were in all."""

    def recent(self) -> list[DeadLetter]:
        """Give the last thousand, oldest first."""
        return list(self._ring)

    def feed(self) -> EventSubscription[DeadLetter]:
        """Follow what comes from now on, with ``async for``."""
        return self._feed.subscribe()

    def add(self, message: Message, ref: Ref, reason: Reason, error: BaseException) -> None:
        """Keep a message that will not be handled, and tell it so.

        An error in ``message.abandoned`` is logged and goes no further: it belongs neither to whoever told the
        message nor to whoever did not handle it.
        """
        letter = DeadLetter(message, ref, reason, error, trio.current_time())
        self.count += 1
        self._ring.append(letter)
        self._feed.publish(letter)
        self._system.publish(DeadLettered, ref, letter)
        logger.debug("%s for %s is a dead letter (%s): %r", type(message).__qualname__, ref.path, reason, error)
        try:
            self._system.turn.run(message.abandoned, error)
        except Exception:
            logger.exception("%s.abandoned crashed", type(message).__qualname__)

    def close(self) -> None:
        """End the feed."""
        self._feed.close()
