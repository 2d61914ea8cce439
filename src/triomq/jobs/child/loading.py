"""Find the registry that a worker was started for: ``MODULE:JOBS``."""

import importlib
from typing import TYPE_CHECKING

from triomq.errors import ConfigError

if TYPE_CHECKING:
    from triomq.jobs.registry import Jobs


def load_jobs(target: str) -> "Jobs":
    """Import a module and return its registry.

    Args:
        target: ``MODULE:JOBS``; ``JOBS`` is ``jobs`` if it is left out.

    Raises:
        ConfigError: There is no such module, or no registry in it. What the module itself raises is raised as it is.
    """
    from triomq.jobs.registry import Jobs

    name, _, attribute = target.partition(":")
    attribute = attribute or "jobs"
    if not name:
        raise ConfigError(f"{target!r} names no module; write MODULE:JOBS, such as mail:jobs")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and misses another one
        raise ConfigError(f"there is no module {name!r} here; start the worker in the folder that has it") from None
    found = getattr(module, attribute, None)
    if not isinstance(found, Jobs):
        registries = [key for key, value in vars(module).items() if isinstance(value, Jobs)]
        raise ConfigError(
            f"{name}.{attribute} is {'not there' if found is None else f'no registry of jobs: {found!r:.100}'}; "
            f"{f'there is {name}:{registries[0]}' if registries else f'write `{attribute} = Jobs()` into {name}'}"
        )
    return found
