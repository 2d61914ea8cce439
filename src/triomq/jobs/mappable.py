"""What ``map`` takes, for type checkers: an iterable for each of the first arguments, the others by their names.

    @jobs.job
    async def resize(path: str, width: int, *, sharp: bool = True) -> bytes: ...

    await resize.map(paths, width=200)             # OneFirst:  str, and what is left is (width: int, *, sharp: bool)
    await resize.map(paths, widths, sharp=False)   # TwoFirst:  str, int, and what is left is (*, sharp: bool)

Types can take arguments off the front of a function's (PEP 612), and name what is left, but only together, by place and
by name. So an argument that is no iterable passes the type checker without its name, and is refused when it is sent.

Why protocols, with ``send``: of ``self: Caller[Concatenate[A, Q], R]`` mypy infers ``Q`` and leaves ``A`` open, so that
any values would do.
"""

from typing import ParamSpec, Protocol, TypeVar

A = TypeVar("A", contravariant=True)
B = TypeVar("B", contravariant=True)
C = TypeVar("C", contravariant=True)
Q = ParamSpec("Q")
S = TypeVar("S", covariant=True)


class OneFirst(Protocol[A, Q, S]):
    """What takes one argument, and what is left."""

    def send(self, first: A, /, *args: Q.args, **kwargs: Q.kwargs) -> S:
        """Send it."""


class TwoFirst(Protocol[A, B, Q, S]):
    """What takes two arguments, and what is left."""

    def send(self, first: A, second: B, /, *args: Q.args, **kwargs: Q.kwargs) -> S:
        """Send it."""


class ThreeFirst(Protocol[A, B, C, Q, S]):
    """What takes three arguments, and what is left."""

    def send(self, first: A, second: B, third: C, /, *args: Q.args, **kwargs: Q.kwargs) -> S:
        """Send it."""
