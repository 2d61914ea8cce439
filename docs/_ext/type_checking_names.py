"""Resolve annotations that name what a module imports for the type checker only.

Such imports stand below ``if TYPE_CHECKING:`` because at run time they would go in a circle. When the documentation is
built every module is there already, so the names are filled in, and autodoc can look annotations up.
"""

import ast
import pkgutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx

import triomq


def modules() -> list[ModuleType]:
    """Import every module of the package but the one that runs the command line."""
    found = pkgutil.walk_packages(triomq.__path__, "triomq.")
    return [import_module(entry.name) for entry in found if not entry.name.endswith("__main__")]


def fill_in(module: ModuleType) -> None:
    """Do what the module's ``if TYPE_CHECKING:`` blocks would do, where a name is not there yet."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    for block in tree.body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module is not None:
                    for name in line.names:
                        value = getattr(import_module(line.module), name.name)
                        module.__dict__.setdefault(name.asname or name.name, value)


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill in all names before the first page is read."""
    for module in modules():
        if module.__name__ != "triomq":
            fill_in(module)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
