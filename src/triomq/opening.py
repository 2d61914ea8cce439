"""Context managers of the ``open_…`` functions; used in another way they raise how they are used."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Opening(AbstractAsyncContextManager[T], Generic[T]):
    """A context manager that is entered once; made by a function that ``opening`` decorates.

    Args:
        manager: What opens and closes.
        way: How its use is written, for the errors.
    """

    def __init__(self, manager: AbstractAsyncContextManager[T], way: str) -> None:
        self._manager = manager
        self._way = way

    async def __aenter__(self) -> T:
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, traceback)

    def __getattr__(self, name: str) -> NoReturn:
        """Raise that nothing is open yet."""
        raise AttributeError(f"nothing is open yet, so there is no {name!r}; write `{self._way}`")

    if not TYPE_CHECKING:  # type checkers find these mistakes themselves, as long as they do not see these methods

        def __await__(self) -> NoReturn:
            """Raise that this is entered, not awaited."""
            raise TypeError(f"this is entered, not awaited; write `{self._way}`")

        def __enter__(self) -> NoReturn:
            """Raise that this is entered with ``async with``."""
            raise TypeError(f"this is entered with `async with`, not with `with`; write `{self._way}`")

        def __exit__(self, *details: object) -> None:
            """Nothing was entered."""

        def __aiter__(self) -> NoReturn:
            """Raise that nothing is open yet."""
            raise TypeError(f"nothing is open yet to iterate over; write `{self._way}`")


def opening(way: str) -> Callable[[Callable[P, AsyncIterator[T]]], Callable[P, Opening[T]]]:
    """Turn a generator into an asynchronous context manager, as ``asynccontextmanager`` does, with better errors.

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
        way: How its use is written, for the errors.
    """

    def __init__(self, manager: AbstractContextManager[T], way: str) -> None:
        self._manager = manager
        self._way = way

    def __enter__(self) -> T:
        return self._manager.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._manager.__exit__(kind, error, traceback)

    def __getattr__(self, name: str) -> NoReturn:
        """Raise that nothing is open yet."""
        raise AttributeError(f"nothing is open yet, so there is no {name!r}; write `{self._way}`")

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            """Raise that nothing is open yet."""
            raise TypeError(f"nothing is open yet to iterate over; write `{self._way}`")


def opening_blocking(way: str) -> Callable[[Callable[P, Iterator[T]]], Callable[P, BlockingOpening[T]]]:
    """Turn a generator into a context manager, as ``contextmanager`` does, with better errors.

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
