"""Names in commands, and lists of them in pages, as all profiles of our own have them."""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Annotated, Final, TypeAlias

import msgspec

from triomq.endpoints.base.domain_work import LONGEST_KEY, DomainWork
from triomq.endpoints.mtl.profile import BadRequest
from triomq.protocols.control import sayable
from triomq.protocols.mtl import is_short_text

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number that every wire can carry."""

_LOOKED_AT: Final = 1_000
"""Names of which it is asked for one page whether the user may know them, some 1 ms of work."""


_SHOWN: Final = 3
"""What one name counts as in pushes: to ask for its rights, to look it up and to write it in JSON takes 4 µs."""


class ListArguments(msgspec.Struct, frozen=True):
    """Of a command that lists.

    Args:
        prefix: What the names begin with.
        after: The name behind which the list goes on: what the last answer has under ``after``.
        limit: At most so many.
    """

    prefix: str = ""
    after: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


def require_name(name: str, what: str, prefix: str = "") -> None:
    """Require that a name is one that a data command can carry, with what resources of this kind begin with.

    Args:
        name: The name.
        what: Of what, for the text.
        prefix: What stands before it in the name of the resource.

    Raises:
        BadRequest: It is not.
    """
    if not name or not is_short_text(prefix + name):
        most = 255 - len(prefix)
        raise BadRequest(
            f"the name of the {what} is {name[:80]!a}; it has to have 1 to {most} bytes in UTF-8, and no control "
            "characters"
        )


def page_of(
    work: DomainWork, names: Iterable[str], asked: ListArguments, may_know: Callable[[str], bool]
) -> tuple[list[str], dict[str, object]]:
    """Cut a page out of names.

    All names are looked at for each page, which takes 10 ms for 100,000; rights are asked for few of them. Names that
    are not UTF-8, as AMQP can have them, are passed over: no client of MTL could use them.

    Args:
        work: Who asks.
        names: All that there are, in any order.
        asked: Which of them.
        may_know: Whether the user may know of one.

    Returns:
        The names in order, and what the answer has besides: ``after`` if there may be more.
    """
    found = [name for name in names if name > asked.after and name.startswith(asked.prefix)]
    first = nsmallest(_LOOKED_AT, found)
    work.system.turn.charge(len(found) // 10 + _SHOWN * min(len(first), asked.limit))
    listed: list[str] = []
    last = ""
    for name in first:
        if len(listed) == asked.limit:
            return listed, {"after": last}
        last = name
        if sayable(name) == name and may_know(name):
            listed.append(name)
    return listed, {"after": last} if len(found) > len(first) and sayable(last) == last else {}


def require_key(key: str, what: str) -> None:
    """Require that a key or an address is not longer than other protocols can carry.

    Raises:
        BadRequest: It is.
    """
    size = len(key.encode())
    if size > LONGEST_KEY:
        raise BadRequest(f"the {what} has {size} bytes in UTF-8; {LONGEST_KEY} are allowed")
