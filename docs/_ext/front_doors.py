"""Let a reference to where a name is written find where it is documented: at the front door of its package.

Annotations name ``triomq.actors.ref.Ref``; readers import, and the reference lists, ``triomq.actors.Ref``. In a
docstring ``ActorStopped`` means the only class of that name. Names of Trio and type variables stay plain text; any
other that does not resolve is a mistake, which nitpicky mode reports.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import ParamSpec, TypeVar

import trio
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def candidates(target: str, documented: Iterable[str]) -> list[str]:
    """List the documented names that the target can mean, best first."""
    *modules, name = target.split(".")
    if not modules:
        same = [full for full in documented if full.endswith(f".{name}")]
        return same if len(same) == 1 else []
    doors = [".".join([*modules[:depth], name]) for depth in range(len(modules) - 1, 0, -1)]
    # A method or attribute: the class before it is what the door offers.
    doors += [".".join([*modules[:depth], modules[-1], name]) for depth in range(len(modules) - 2, 0, -1)]
    return [door for door in doors if door in documented]


def is_elsewhere(target: str) -> bool:
    """Return whether the target is Trio's, or a type variable, so that no page of ours can have it."""
    module, _, name = target.rpartition(".")
    if not module:
        return hasattr(trio, name) or len(name) == 1  # such names are type variables
    try:
        return isinstance(getattr(import_module(module), name, None), TypeVar | ParamSpec)
    except ModuleNotFoundError:
        return False


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
    """Find a Python name that was not found where it is written."""
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or not ("." not in target or target.startswith("triomq.")):
        return None
    python = env.domains.python_domain
    for name in candidates(target, python.objects):
        return python.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)
    return content if is_elsewhere(target) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the resolver."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
