"""The states of an actor, and the events that change them, as tables.

A status is a small integer, for it is compared before every message; ``IDLE`` is 0 since that is tested by truth. The
order matters: up to ``OWN_TIME`` the actor runs, up to ``BUSY_WAITING`` its messages are handled in a turn of others,
and from ``DRAINING`` on it accepts no message::

    STARTING ──started──▶ IDLE ⇄ BUSY, WAITING, BUSY_WAITING      an actor in place, or one that answers in place
        ▲            └──▶ OWN_TIME                                an actor whose messages wait in its mailbox
        │ launched               │ crashed, or halted for a sibling's sake
        └────── BACKING_OFF ◀────┴── HALTING
                     │ told to stop for good, whatever it was: DRAINING ──▶ STOPPED

Each event below names the statuses that it changes; in any other status it changes nothing. The hot path of ``Ref``
sets IDLE and BUSY itself, by the same rows.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

State = Literal["starting", "running", "backing_off", "draining", "stopped"]
Move: TypeAlias = Mapping[int, int]

IDLE: Final = 0  # running; a message is handled in the present turn
BUSY: Final = 1  # running; its handler is on the stack
WAITING: Final = 2  # running; messages wait for the present turn
BUSY_WAITING: Final = 3  # both
OWN_TIME: Final = 4  # an actor with a task, running: messages go to its mailbox
STARTING: Final = 5  # on_start has not finished; messages are held
BACKING_OFF: Final = 6  # between two incarnations; messages are held
HALTING: Final = 7  # a sibling's crash ends this incarnation; messages are held for the next
DRAINING: Final = 8  # stopping for good; no message is accepted
STOPPED: Final = 9

STATES: Final[tuple[State, ...]] = (
    *("running",) * 5,
    "starting",
    "backing_off",
    "draining",
    "draining",
    "stopped",
)
"""The state that users see for each status."""

_RUNNING: Final = (IDLE, BUSY, WAITING, BUSY_WAITING, OWN_TIME)

LAUNCHED: Final[Move] = {STARTING: STARTING, BACKING_OFF: STARTING}
STARTED_IN_PLACE: Final[Move] = {STARTING: IDLE}
STARTED: Final[Move] = {STARTING: OWN_TIME}
QUEUED: Final[Move] = {IDLE: WAITING, BUSY: BUSY_WAITING}
"""A message was put where the present turn will find it."""
RETURNED: Final[Move] = {BUSY: IDLE, BUSY_WAITING: WAITING}
"""The handler on the stack has returned."""
MAILED: Final[Move] = {IDLE: OWN_TIME, BUSY: BUSY_WAITING}
"""An item goes to the mailbox of an actor that answers in place; to keep the order, all that follow do too."""
WOKEN: Final[Move] = dict.fromkeys(_RUNNING, OWN_TIME)
"""The loop of an actor with a task handles a batch."""
RESTED: Final[Move] = dict.fromkeys(_RUNNING, IDLE)
"""The loop of one that answers in place waits for its mailbox, which is empty."""
CRASHED: Final[Move] = dict.fromkeys((*_RUNNING, STARTING), BACKING_OFF)
"""The incarnation has ended by itself, or its making has failed."""
HALTED: Final[Move] = {HALTING: BACKING_OFF}
"""The incarnation has ended that was to be restarted with a sibling."""
