"""Rules of waiting: which actor may await which, and that no actor waits for itself.

Two checks are made whenever an actor's own task awaits ``tell`` or ``ask``. Always: the other actor must not wait,
directly or through others, for this one; that would be for ever. Under test (``open_system(check_waits=True)``): the
class must declare the wait in ``waits_for``; the declarations of all classes together must have no cycle, so that no
run of the program can have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from triomq.actors.ref import Ref
    from triomq.actors.task_ref import TaskRef


class Waits:
    """The waits of actors for actors at present, in one system."""

    def __init__(self, *, check: bool) -> None:
        self._check = check
        self._actors: dict[trio.lowlevel.Task, TaskRef] = {}

    def enter(self, task: trio.lowlevel.Task, ref: TaskRef) -> None:
        """Record the task of an actor's incarnation."""
        self._actors[task] = ref

    def leave(self, task: trio.lowlevel.Task) -> None:
        """Drop the task of an incarnation that has ended."""
        del self._actors[task]

    def begin(self, target: Ref) -> TaskRef | None:
        """Check that the current task may wait for an actor, and record that it does.

        Returns:
            The actor whose task this is, for :meth:`end`; ``None`` if it is no actor's.

        Raises:
            RuntimeError: the wait would be for ever, or is not declared.
        """
        asker = self._actors.get(trio.lowlevel.current_task())
        if asker is None:
            return None
        self._refuse_circle(asker, target)
        self.check_declared(target)
        asker._waits_on = target
        return asker

    def check_declared(self, target: Ref) -> None:
        """Under test, check that the class of the actor whose task this is declares that it may wait for another.

        Raises:
            RuntimeError: it does not.
        """
        asker = self._actors.get(trio.lowlevel.current_task()) if self._check else None
        if asker is None or asker is target or issubclass(target.actor_class, asker._table.waits_for):
            return
        raise RuntimeError(
            f"{asker.path} waits for {target.path}, but {asker.actor_class.__qualname__}.waits_for does not name "
            f"{target.actor_class.__qualname__}; add it, or use tell_nowait, which never waits"
        )

    @staticmethod
    def end(asker: TaskRef | None) -> None:
        """Record that the wait is over."""
        if asker is not None:
            asker._waits_on = None

    def _refuse_circle(self, asker: TaskRef, target: Ref) -> None:
        chain = [asker, target]
        while chain[-1] is not asker:
            following = chain[-1]._waits_on
            if following is None:
                return
            chain.append(following)
        if target is asker:
            raise RuntimeError(
                f"{asker.path} waits for itself, so the answer would never come; call the method directly, or use "
                "tell_nowait, whose message is handled after this one"
            )
        raise RuntimeError(
            f"these actors would wait for each other for ever: {' → '.join(ref.path for ref in chain)}; "
            "let one of them use tell_nowait and be told the answer as a message"
        )
