"""What cannot be done with feeds, pipes and joins, whatever wire asks for it; each wire has words of its own for it."""

from collections.abc import Collection

from triomq.errors import AccessRefused, Inequivalent, LimitExceeded, NotFound, Refused, ResourceLocked

_SHOWN = 80
"""Characters of a client's text that are repeated: enough to find the place."""


class UnknownType(Refused):
    """A domain has no feeds, pipes or joins of this type (2/RestMS).

    Args:
        kind: ``feed``, ``pipe`` or ``join``.
        found: The type.
        allowed: Those that there are.
    """

    def __init__(self, kind: str, found: str, allowed: Collection[str]) -> None:
        words = ", ".join(word or '""' for word in allowed)
        super().__init__(
            f"the type of the {kind} is {found[:_SHOWN]!a}; this domain has {words}; send one of these, or none"
        )


class BadFeedName(Refused):
    """No feed can have such a name (class 61501)."""


class BadAddress(Refused):
    """No join can have such an address."""


class OtherType(Inequivalent):
    """There is a feed of this name already, of another type, and a client has made it so (C5)."""

    def __init__(self, name: str, wanted: str, current: str) -> None:
        super().__init__(name, "type", wanted, current)


class ReservedName(AccessRefused):
    """Only the broker makes things of such names."""

    def __init__(self, name: str) -> None:
        super().__init__(f"names that begin with 'amq.' are the broker's own, found {name!r}; take another one")


class NotAFeed(ResourceLocked):
    """A feed cannot have this name, since something else has it, or will."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the name {name!r} is taken by something that is no feed; take another one")


class NoSuchFeed(NotFound):
    """There is no feed of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no feed {name!r}; create it first")


class NoSuchPipe(NotFound):
    """There is no pipe of this name, or it is another user's."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no pipe {name!r}; create one, and use the name that it gets")


class NoSuchJoin(NotFound):
    """There is no such join, or it is another user's."""

    def __init__(self, hash_: str) -> None:
        super().__init__(f"there is no join {hash_!r}; the pipe lists those that it has")


class FixedFeed(AccessRefused):
    """The feed was configured, or another user or broker has made it, so this one may not change or delete it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"feed {name!r} is not yours to change or delete; who has made it may, or an administrator")


class MayNotPost(AccessRefused):
    """The user may not post to a feed.

    Args:
        feed: Its name.
        written: What it is to be written to, as permissions name it; empty for the default sink.
    """

    def __init__(self, feed: str, written: str) -> None:
        right = f"the right to write {written or 'amq.default'!r}"
        super().__init__(f"the user may not post to feed {feed!r}; an administrator can grant {right}")


class MayNotRead(AccessRefused):
    """The user may not read what comes into a pipe, or goes from a shared feed to one.

    Args:
        kind: ``pipe`` or ``feed``.
        name: Its name.
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"the user may not read {kind} {name!r}; an administrator can grant the right to read it")


class DefaultFeedJoin(AccessRefused):
    """The joins to the default feed are the pipes' own: clients neither make nor delete one (3/Defaults: MUST)."""

    def __init__(self) -> None:
        super().__init__(
            "each pipe has its join to the default feed already, and there can be no other; join another feed"
        )


class TooManyJoins(LimitExceeded):
    """A pipe, or what a join compares, has a limit."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"{what} can have {most:,}; make another pipe, or join by an address that takes in more")


class OnlySharedFeeds(AccessRefused):
    """An ondemand pipe joins shared queues alone (4/AMQP9: SHOULD)."""

    def __init__(self, feed: str) -> None:
        super().__init__(f"an ondemand pipe can be joined to a rotator or a service, and {feed!r} is neither")
