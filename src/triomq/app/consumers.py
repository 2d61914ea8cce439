"""What feeds in this process share, whatever their domain: the turn, the codecs, the supervisor of their actors."""

import logging
import threading
from collections.abc import Callable, Mapping
from threading import get_ident
from time import monotonic
from typing import TypeAlias, TypeVar

from triomq.actors import ChildSpec, DynamicSupervisor, InPlaceActor, Ref, System, Turn, is_under_asyncio
from triomq.core import Codecs
from triomq.errors import ActorStopped

T = TypeVar("T")

Warn: TypeAlias = Callable[[str, Callable[[], Mapping[str, object]]], None]
"""Logs a text with fields that are made only if it is logged."""

_log = logging.getLogger("triomq.app")

_WARN_INTERVAL = 60.0
"""Seconds; a mistake that each message makes must not fill the log, and one a minute is still seen."""

_NO_THREAD = 0
"""The identity of no thread at all; threading promises that those of threads are not zero."""


class Consumers:
    """Where consumers in this process have their actors; a broker makes one and lends it to its handles.

    It also knows from where the broker may be used: in the thread that it was opened in, until its block was left.
    ``thread`` is that thread's identity, and none once the broker is closed.

    Args:
        system: The system that all of it lives in.
        ref: The supervisor of the actors at the consumers' ends.
        codecs: How properties are decoded.
    """

    def __init__(self, system: System, ref: Ref, codecs: Codecs) -> None:
        self.codecs = codecs
        self._system = system
        self._ref = ref
        self.thread = get_ident()
        self._warn_again: dict[str, float] = {}  # when, in seconds of the machine, by text
        self._thread_name = threading.current_thread().name

    async def start(self, factory: Callable[[], InPlaceActor]) -> Ref:
        """Start the actor at a consumer's end, when the supervisor of consumers runs."""
        await self._ref.wait_running()
        assert isinstance(self._ref.actor, DynamicSupervisor)
        return self._ref.actor.start_child_nowait(ChildSpec(factory, restart="temporary"))

    def stop(self, ref: Ref) -> None:
        """Stop such an actor, unless its supervisor was restarted meanwhile, which has ended it."""
        if isinstance(self._ref.actor, DynamicSupervisor):
            self._ref.actor.stop_child_nowait(ref)

    @property
    def shared_turn(self) -> Turn:
        """The turn of the system that all of it lives in."""
        return self._system.turn

    def turn(self, function: Callable[[], T]) -> T:
        """Do something as one turn: what it tells the core is dispatched and written when it ends."""
        return self._system.turn.run(function)

    # From where it is used

    def check(self) -> None:
        """See that the broker may be used here and now.

        Raises:
            ActorStopped: The broker is closed.
            RuntimeError: This is another thread than the broker's.
        """
        if get_ident() != self.thread:
            self.check_open()
            raise RuntimeError(self._elsewhere())

    def check_open(self) -> None:
        """See that the broker may still be looked at, in whatever thread.

        Raises:
            ActorStopped: The broker is closed.
        """
        if self.thread == _NO_THREAD:
            raise ActorStopped("this broker is closed: the block of open_broker was left; open another one")

    def check_thread(self) -> None:
        """See that this is the broker's thread, should the broker not be closed yet.

        Raises:
            RuntimeError: It is another one.
        """
        if get_ident() != self.thread != _NO_THREAD:
            raise RuntimeError(self._elsewhere())

    def close(self) -> None:
        """Note that the broker is closed; one comparison in ``check`` finds out about that and about threads."""
        self.thread = _NO_THREAD

    def warn(self, text: str, fields: Callable[[], Mapping[str, object]]) -> None:
        """Log what a program seems to get wrong; each text at most once a minute, for it may be about each message."""
        now = monotonic()
        if now >= self._warn_again.get(text, 0.0):
            self._warn_again[text] = now + _WARN_INTERVAL
            _log.warning(text, extra={"fields": fields()})

    def _elsewhere(self) -> str:
        here = threading.current_thread().name
        text = f"this is thread {here!r}, and the broker lives in thread {self._thread_name!r}, where Trio runs"
        if is_under_asyncio():
            return (
                f"{text}; under asyncio use open_asyncio_broker, or, for a broker of a Trio program, "
                "AsyncioBroker(portal) with the portal of open_portal(broker)"
            )
        return (
            f"{text}; in threads use open_blocking_broker, or, for a broker of a Trio program, BlockingBroker(portal) "
            "with the portal of open_portal(broker)"
        )
