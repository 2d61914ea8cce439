"""Dead letters: the messages that were not handled, as a bounded list of the latest, and as a feed."""

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
its handler refused it and there was no asker; its mailbox was full and the overflow policy dropped it."""

RECENT: Final = 1_000
"""Dead letters that are held for ``recent``; enough to see a pattern, too few to be a leak."""


class DeadLetter(msgspec.Struct, frozen=True):
    """One message that was not handled."""

    message: Message
    ref: Ref
    """The actor that it was for."""
    reason: Reason
    error: BaseException
    time: float
    """When it became a dead letter, in seconds of ``trio.current_time()``."""


class DeadLetters:
    """The dead letters of one system; ``system.dead_letters``."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._ring: deque[DeadLetter] = deque(maxlen=RECENT)
        self._feed: EventStream[DeadLetter] = EventStream()
        self.count = 0
        """How many there were in all."""

    def recent(self) -> list[DeadLetter]:
        """Return the last thousand, oldest first."""
        return list(self._ring)

    def feed(self) -> EventSubscription[DeadLetter]:
        """Return a subscription to dead letters from now on, for ``async for``."""
        return self._feed.subscribe()

    def add(self, message: Message, ref: Ref, reason: Reason, error: BaseException) -> None:
        """Add a message that will not be handled, and call its ``abandoned``.

        An error in ``message.abandoned`` is logged and goes no further: it belongs neither to the teller of the
        message nor to the actor that did not handle it.
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
