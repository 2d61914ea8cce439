"""No actor can wait for itself by way of others: what the actors of triomq may await, drawn together, has no circle."""

import importlib
import pkgutil
from collections.abc import Iterator

import triomq
from triomq.actors import Actor
from triomq.actors.testing import find_wait_cycle


def load_all() -> None:
    """Import every module whose dependencies are installed; extras may be missing, parts of triomq may not."""
    for module in pkgutil.walk_packages(triomq.__path__, "triomq.", onerror=lambda name: None):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").startswith("triomq"):
                raise


def task_actors(base: type = Actor) -> Iterator[type]:
    for actor_class in base.__subclasses__():
        if actor_class.__module__.startswith("triomq."):
            yield actor_class
        yield from task_actors(actor_class)


def test_actors_that_may_await_each_other_form_no_circle() -> None:
    load_all()
    classes = list(dict.fromkeys(task_actors()))
    assert classes
    circle = find_wait_cycle(classes)
    assert not circle, " waits for ".join(one.__qualname__ for one in circle)
