"""What all feeds in this process share: the turn, the codecs, the supervisor of their actors, the thread."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from threading import get_ident
from time import monotonic
from typing import TypeAlias, TypeVar

from triomq.actors import ChildSpec, DynamicSupervisor, InPlaceActor, Ref, System, Turn, is_under_asyncio
from triomq.core import Codecs
from triomq.errors import ActorStopped
from triomq.process import fork_error, tell_forks

T = TypeVar("T")

Warn: TypeAlias = Callable[[str, Callable[[], Mapping[str, object]]], None]
"""A function that logs a text with fields, which are made only if it is logged."""

_log = logging.getLogger("triomq.app")

_WARN_INTERVAL = 60.0
"""Seconds; a mistake that each message makes must not fill the log, and one a minute is still seen."""

_FROM_FORKS = "Let the broker listen, AMQP(port=0), and connect to it from here"

_IN_FORK = -1
"""The identity of no thread either, in a fork of the broker's process."""

_NO_THREAD = 0
"""The identity of no thread at all; threading promises that those of threads are not zero."""


class Consumers:
    """The actors of consumers in this process, and the thread that may use them; shared by a broker and its handles.

    A broker may be used in the thread that it was opened in, until its block was left. ``thread`` is that thread's
    identity, and that of no thread once the broker is closed.

    Args:
        system: The actors of the broker.
        ref: The supervisor of the actors at the consumers' ends.
        codecs: How properties are decoded.
    """

    def __init__(self, system: System, ref: Ref, codecs: Codecs) -> None:
        self.codecs = codecs
        self._system = system
        self._ref = ref
        self.thread = get_ident()
        self._process = os.getpid()
        tell_forks(self, Consumers._in_fork)
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
        """The turn of all actors of the broker."""
        return self._system.turn

    def turn(self, function: Callable[[], T]) -> T:
        """Call a function in one turn: messages that it sends to the core are dispatched when the turn ends."""
        return self._system.turn.run(function)

    # The thread that may use it

    def check(self) -> None:
        """Check that the broker is open, and that this is its thread.

        Raises:
            ActorStopped: The broker is closed.
            RuntimeError: This is another thread than the broker's.
        """
        if get_ident() != self.thread:
            self.check_open()
            raise RuntimeError(self._elsewhere())

    def check_open(self) -> None:
        """Check that the broker is open; in any thread.

        Raises:
            ActorStopped: The broker is closed.
        """
        if self.thread == _NO_THREAD:
            raise ActorStopped("this broker is closed: the block of open_broker was left; open another one")

    def check_thread(self) -> None:
        """Check that this is the broker's thread, unless the broker is closed.

        Raises:
            RuntimeError: It is another one.
        """
        if get_ident() != self.thread != _NO_THREAD:
            raise RuntimeError(self._elsewhere())

    def close(self) -> None:
        """Close the broker's handles. One comparison in ``check`` covers this and other threads."""
        self.thread = _NO_THREAD

    def warn(self, text: str, fields: Callable[[], Mapping[str, object]]) -> None:
        """Log a likely mistake of the program; each text at most once a minute, since it may be about every message."""
        now = monotonic()
        if now >= self._warn_again.get(text, 0.0):
            self._warn_again[text] = now + _WARN_INTERVAL
            _log.warning(text, extra={"fields": fields()})

    def _in_fork(self) -> None:
        self.thread = _IN_FORK

    def _elsewhere(self) -> str:
        if self.thread == _IN_FORK:
            return str(fork_error("the broker", self._process, _FROM_FORKS))
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
