"""What ``@jobs.job`` makes of a function: the function still, and the ways to have a worker call it."""

from collections.abc import AsyncIterator, Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar, cast

from triomq.jobs.definition import JobDefinition

if TYPE_CHECKING:
    from triomq.jobs.registry import Jobs

P = ParamSpec("P")
Returned = TypeVar("Returned")
R = TypeVar("R")
T = TypeVar("T")


class _Function(Generic[P, Returned]):
    """What functions and streams have in common."""

    def __init__(self, jobs: "Jobs", definition: JobDefinition) -> None:
        self._jobs = jobs
        self.definition = definition
        """Name, options and conversion."""
        update_wrapper(self, definition.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Returned:
        """Call the function here and now, as if it were no job."""
        return cast("Returned", self.definition.function(*args, **kwargs))

    def __repr__(self) -> str:
        """Show the name."""
        return f"<{type(self).__name__} {self.definition.name}>"


class JobFunction(_Function[P, Returned], Generic[P, Returned, R]):
    """A function that workers call; made by the decorators of ``Jobs``."""


class StreamFunction(_Function[P, AsyncIterator[T]], Generic[P, T]):
    """An async generator whose items come from a worker; made by the decorators of ``Jobs``."""


AnyFunction = Callable[..., object]
