"""Public names of the package, whatever was imported before them."""

from importlib import import_module
from types import ModuleType

from triomq import analytics


def test_public_names_are_no_modules_once_these_are_imported() -> None:
    for module in sorted(set(analytics._MODULES.values())):
        import_module(module)
    assert [name for name in analytics.__all__ if isinstance(getattr(analytics, name), ModuleType)] == []
