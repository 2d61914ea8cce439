"""A turn: what is done between two checkpoints, from one call to the end of all that it has caused.

``Turn.run`` calls a function with no handler on the stack (phase BODY). A message that it tells to an idle actor in
place is handled at once. A message that a *handler* tells (phase HANDLER) is put on a list, which is worked off as soon
as the handler has returned: a trampoline. So there is never more than one told handler on the stack, depth is flat
however long a chain of dead letters is, and no actor sees another one half-changed. When the function has returned,
``after_batch`` of each touched actor runs, once per touching, first come first served:

    run(f) ── BODY ── f tells a: a's handler ── HANDLER ── it tells b: on the list
              │                                            └─ returned: b's handler, from the list
              └─ f has returned: after_batch of a, of b ── what they tell is handled in the same way ── over

A queue therefore dispatches once for a chunk with a hundred publishes, and a connection writes once for all that the
chunk has caused: that is where the speed comes from. Nothing here awaits, so no other task sees the middle of a turn,
and Ctrl-C is held back until it is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, TypeVarTuple

import trio

if TYPE_CHECKING:
    from triomq.actors.handling import Handling
    from triomq.actors.system import System

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

NO_TURN: Final = 0
"""No turn is going on."""
BODY: Final = 1
"""In a turn, no handler on the stack: what is told now is handled now."""
HANDLER: Final = 2
"""In a turn, a handler or ``after_batch`` is on the stack: what is told now waits until it has returned."""

BUDGET: Final = 2_000
"""Queue pushes after which a reader ends its turn: 64 KiB fanned out to 1,000 queues hold the loop for 150 ms."""

LONGEST: Final = 100_000
"""Steps of the trampoline in one turn (about 50 ms); actors that tell each other for ever continue in another turn,
after a checkpoint, so that even they cannot stop the loop."""


class Source(Protocol):
    """What brings work, and can be asked to bring none for a while: a client that is read from."""

    def hold_back(self) -> bool:
        """Bring nothing more until ``go_ahead`` is called as often as this; return False if that cannot be."""

    def go_ahead(self, *, in_vain: bool) -> None:
        """Go on, soon; may be called in the middle of another turn.

        Args:
            in_vain: Whether the pause was for nothing, so that the next one should not follow at once.
        """


class Turn:
    """The one place of a system where turns happen; ``system.turn``, made by the system and gone with it."""

    __slots__ = ("charged", "phase", "ready", "source", "spent", "steps", "system", "touched")

    def __init__(self, system: System) -> None:
        self.system = system
        self.phase = NO_TURN
        self.ready: deque[Handling] = deque()  # actors with messages that wait for this turn
        self.touched: deque[Handling] = deque()  # actors whose after_batch is due
        self.spent = 0  # queue pushes
        self.charged = 0  # other work, in queue pushes
        self.source: Source | None = None  # what brought the first of the pushes, if it can be held back
        self.steps = LONGEST

    @property
    def exhausted(self) -> bool:
        """Whether this turn has used up its budget; readers check it between events and then end their turn."""
        return self.spent + self.charged > BUDGET

    def charge(self, pushes: int) -> None:
        """Count other work against the budget of this turn, by what it would be in queue pushes of 1 µs to 2 µs.

        Publishers count their pushes in ``spent``, whose first one in a turn they can tell by that.
        """
        self.charged += pushes

    @trio.lowlevel.enable_ki_protection
    def run(self, function: Callable[[*Ts], R], *args: *Ts) -> R:
        """Call a function as a turn, or as part of the present one, and return its result.

        An error of the function is raised after the rest of the turn has been done. Ctrl-C waits until
        the turn is over.
        """
        if self.phase:
            return function(*args)
        self.phase = BODY
        try:
            return function(*args)
        finally:
            self._finish()

    def call(self, function: Callable[[*Ts], R], *args: *Ts) -> R:
        """Call a function as if it were a handler: what it tells is handled when it has returned."""
        if not self.phase:
            return self.run(self.call, function, *args)
        phase, self.phase = self.phase, HANDLER
        try:
            return function(*args)
        finally:
            self.phase = phase
            if phase == BODY and self.ready:
                self.drain()

    def drain(self) -> None:
        """Handle the messages that handlers have told; called whenever the last handler has left the stack."""
        ready = self.ready
        steps = self.steps
        self.phase = HANDLER  # what handlers tell goes to ``ready``, and is handled here: the depth stays flat
        while ready and steps:
            steps -= 1
            ready.popleft().run_waiting()
        self.steps = steps
        self.phase = BODY

    def _finish(self) -> None:
        ready, touched = self.ready, self.touched
        while True:
            if ready:
                self.drain()
            if not touched or not self.steps:
                break
            self.steps -= 1
            self.phase = HANDLER
            touched.popleft().run_after_batch()
        self.phase = NO_TURN
        self.spent = 0  # queue pushes
        self.charged = 0  # other work, in queue pushes
        self.source = None
        if not self.steps:
            self.steps = LONGEST
            self.system.continue_turn()
        self.steps = LONGEST
