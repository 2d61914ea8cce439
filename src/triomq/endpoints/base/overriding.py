"""What a subclass of ours must not define, found when the class is made and not when the first message comes.

Handlers are found by the annotation of their parameter. So a subclass that writes ``def close_client(self, message)``,
without one, has no handler for ``CloseClient`` any more, and the first that is sent would crash its supervisor. A
method called ``run`` would be taken for the actor's own task, and one that is called as a private one of ours would be
called in its place. All of them look harmless where they are written.
"""

from triomq.actors import Actor, InPlaceActor

_HOOKS = frozenset(("on_start", "after_batch", "on_stop", "limit", "overflow", "waits_for"))
"""What an actor's class leaves to its subclasses."""

_ACTORS_OWN = frozenset(
    name for kind in (Actor, InPlaceActor) for name in dir(kind) if not name.startswith("_") and name not in _HOOKS
) | {"ref", "run", "epoch"}


_OURS = __name__.rpartition(".")[0]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def check_overriding(subclass: type, base: type, hooks: str) -> None:
    """Refuse a class that hides what is final in its bases, or what belongs to the actor itself.

    Args:
        subclass: The class that is being made.
        base: The class of ours that it derives from.
        hooks: What to define instead, for the text.

    Raises:
        TypeError: It does; the text has the name, and what to do.
    """
    for name in vars(subclass):
        above = next((vars(kind)[name] for kind in subclass.__mro__[1:] if name in vars(kind)), None)
        if getattr(above, "__final__", False):
            what = f"is final in {base.__name__}: it handles messages, or fixes the order in which things end"
        elif _is_private(name) and above is not None and not subclass.__module__.startswith(_OURS):
            what = f"{base.__name__} has for itself"
        elif name in _ACTORS_OWN and name not in vars(base):
            what = "is the actor's own"
        else:
            continue
        raise TypeError(
            f"{subclass.__qualname__} defines {name!r}, which {what}. Call yours something else; what a subclass of "
            f"{base.__name__} may define is {hooks}"
        )
