"""Let a reference to where a class is written find where it is documented: at the front door of its room.

Annotations name ``triomq.actors.ref.Ref``; readers import, and the reference lists, ``triomq.actors.Ref``.
"""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def doors(target: str) -> list[str]:
    """List the names under which outer packages may offer the same thing, nearest first."""
    *modules, name = target.split(".")
    return [".".join([*modules[:depth], name]) for depth in range(len(modules) - 1, 0, -1)]


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
    """Try the doors one after another when a Python name was not found where it is written."""
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or not target.startswith("triomq."):
        return None
    python, builder = env.domains.python_domain, app.builder
    for door in doors(target):
        if door in python.objects:
            return python.resolve_xref(env, node["refdoc"], builder, "obj", door, node, content)
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx about the resolver."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
