"""Names of a package whose modules are imported with their first use, so that a program loads only what it uses."""

from collections.abc import Callable, Mapping, Sequence


def lazy_names(package: str, modules: Mapping[str, str], public: Sequence[str]) -> Callable[[str], object]:
    """Return what a package has as its ``__getattr__``.

    Args:
        package: Its name.
        modules: The module of each name that is not there yet.
        public: All its public names, for the error.
    """

    def find(name: str) -> object:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; its names are {', '.join(public)}")
        from importlib import import_module

        return getattr(import_module(module), name)

    return find
