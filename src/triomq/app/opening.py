"""What ``open_…`` gives: something to enter with ``async with`` or ``with``, which says so to whoever forgets it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Opening(AbstractAsyncContextManager[T], Generic[T]):
    """A block that is still to be entered; made by a function that ``opening`` decorates, entered once.

    Args:
        manager: What opens and closes.
        way: How it is written.
    """

    def __init__(self, manager: AbstractAsyncContextManager[T], way: str) -> None:
        self._manager = manager
        self._way = way

    async def __aenter__(self) -> T:
        """Open it."""
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close it."""
        return await self._manager.__aexit__(kind, error, traceback)

    def __getattr__(self, name: str) -> NoReturn:
        """Explain that nothing is open yet."""
        raise AttributeError(f"nothing is open yet, so there is no {name!r}; write `{self._way}`")

    if not TYPE_CHECKING:  # type checkers find these mistakes themselves, as long as they do not see these methods

        def __await__(self) -> NoReturn:
            """Explain that it is entered, not awaited."""
            raise TypeError(f"this is entered, not awaited; write `{self._way}`")

        def __enter__(self) -> NoReturn:
            """Explain that it is entered by ``async with``."""
            raise TypeError(f"this is entered with `async with`, not with `with`; write `{self._way}`")

        def __exit__(self, *details: object) -> None:
            """Nothing was entered."""

        def __aiter__(self) -> NoReturn:
            """Explain that nothing is open yet."""
            raise TypeError(f"nothing is open yet to iterate over; write `{self._way}`")


def opening(way: str) -> Callable[[Callable[P, AsyncIterator[T]]], Callable[P, Opening[T]]]:
    """Make an asynchronous context manager of a generator, as ``asynccontextmanager`` does, with better errors.

    Args:
        way: How its use is written, for the errors.
    """

    def decorate(function: Callable[P, AsyncIterator[T]]) -> Callable[P, Opening[T]]:
        make = asynccontextmanager(function)

        @wraps(function)
        def open_it(*args: P.args, **kwargs: P.kwargs) -> Opening[T]:
            return Opening(make(*args, **kwargs), way)

        return open_it

    return decorate


class BlockingOpening(AbstractContextManager[T], Generic[T]):
    """The same for plain threads; made by a function that ``opening_blocking`` decorates.

    Args:
        manager: What opens and closes.
        way: How it is written.
    """

    def __init__(self, manager: AbstractContextManager[T], way: str) -> None:
        self._manager = manager
        self._way = way

    def __enter__(self) -> T:
        """Open it."""
        return self._manager.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close it."""
        return self._manager.__exit__(kind, error, traceback)

    def __getattr__(self, name: str) -> NoReturn:
        """Explain that nothing is open yet."""
        raise AttributeError(f"nothing is open yet, so there is no {name!r}; write `{self._way}`")

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            """Explain that nothing is open yet."""
            raise TypeError(f"nothing is open yet to iterate over; write `{self._way}`")


def opening_blocking(way: str) -> Callable[[Callable[P, Iterator[T]]], Callable[P, BlockingOpening[T]]]:
    """Make a context manager of a generator, as ``contextmanager`` does, with better errors.

    Args:
        way: How its use is written, for the errors.
    """

    def decorate(function: Callable[P, Iterator[T]]) -> Callable[P, BlockingOpening[T]]:
        make = contextmanager(function)

        @wraps(function)
        def open_it(*args: P.args, **kwargs: P.kwargs) -> BlockingOpening[T]:
            return BlockingOpening(make(*args, **kwargs), way)

        return open_it

    return decorate
