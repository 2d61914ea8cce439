"""The end of a process that has left something open: a broker or a client in a thread of its own.

Such threads are daemons: a thread that waits for its owner to leave a block would keep the interpreter from ending. But
in the last phase of the interpreter no daemon runs, so whoever waits for one then waits for ever: a generator's
``finally``, called when the generator is collected. So before that, when all other threads have ended, each is asked to
end, and has some seconds for it.

``atexit`` is the moment: non-daemon threads of the program, which may use a broker, are over, and daemons still run.
"""

import atexit
import os
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_PATIENCE = 10.0
"""Seconds that everything together has to end: the time in which brokers drain is 3 s if nothing else is said."""

_open: "WeakKeyDictionary[Any, Callable[[Any, float], object]]" = WeakKeyDictionary()
_process = 0  # in which ``_end_all`` is registered


def end_with_process(owner: T, end: Callable[[T, float], object]) -> T:
    """End something when this process does, unless it was collected before; return it.

    Args:
        owner: What to end, kept weakly.
        end: Ends it; called with it and the seconds that this may take. A second time it does nothing.
    """
    global _process
    if _process != os.getpid():  # a fork has its parent's table, and none of its threads
        if not _process:
            atexit.register(_end_all)
        _open.clear()
        _process = os.getpid()
    _open[owner] = end
    return owner


def _end_all() -> None:
    if _process != os.getpid():
        return
    until = monotonic() + _PATIENCE
    for owner, end in reversed(list(_open.items())):
        end(owner, max(0.5, until - monotonic()))
