"""What was given to a broker and waits to be acknowledged."""

from collections.abc import Callable

import trio

from triomq.protocols.emqp import Extension, PeerEngine


class PendingCommand:
    """A command that waits for ACK; made by the connection, which forgets it when it has ended.

    Waiting costs nothing until a task waits: thousands of these are in flight at a time, and few of them are looked at.

    Args:
        id: Under which the broker knows it.
    """

    __slots__ = ("_lot", "_watchers", "error", "id", "is_accepted", "is_over")

    def __init__(self, id: bytes = b"") -> None:
        self.id = id
        self.is_accepted = False
        """Whether the broker has it, safely: on disk, where that was asked for."""
        self.is_over = False
        """Whether nothing more will come of it."""
        self.error: Exception | None = None
        self._lot: trio.lowlevel.ParkingLot | None = None
        self._watchers: list[Callable[[], object]] | None = None

    @property
    def wants_reply(self) -> bool:
        """Whether it goes on after ACK."""
        return False

    @property
    def has_guarantee(self) -> bool:
        """Whether a broker remembers it through a restart, once it is acknowledged."""
        return True

    def give(self, engine: PeerEngine) -> None:
        """Say it, for the first time or again.

        Raises:
            LocalProtocolError: It cannot be said.
        """
        raise NotImplementedError

    def accept(self, extension: Extension) -> None:
        """Note that the broker has it."""
        self.is_accepted = True
        if not self.wants_reply:
            self.is_over = True
        self.wake()

    def fail(self, error: Exception) -> None:
        """End it."""
        if not self.is_over:
            self.is_over = True
            self.error = error
            self.wake()

    def wake(self) -> None:
        """Have those look again who wait."""
        if self._lot is not None:
            self._lot.unpark_all()
        if self._watchers is not None and self.is_over:
            watchers, self._watchers = self._watchers, None
            for watcher in watchers:
                watcher()

    def watch(self, watcher: Callable[[], object]) -> None:
        """Have a function called when it is over, now if it is: for code that waits for many without a task each."""
        if self.is_over:
            watcher()
        elif self._watchers is None:
            self._watchers = [watcher]
        else:
            self._watchers.append(watcher)

    async def changed(self) -> None:
        """Wait until there is something to look at."""
        if self._lot is None:
            self._lot = trio.lowlevel.ParkingLot()
        await self._lot.park()

    async def accepted(self) -> None:
        """Wait until the broker has it.

        Raises:
            AccessRefused: The user may not.
            LimitExceeded: A queue is full, or the broker is short of memory or disk.
            Refused: The broker refuses it otherwise.
            LocalProtocolError: It could not be sent when the broker was back.
            Disconnected: The connection was closed.
        """
        await trio.lowlevel.checkpoint()
        while not self.is_accepted and not self.is_over:
            await self.changed()
        if self.error is not None and not self.is_accepted:
            raise self.error


class Command(PendingCommand):
    """Any command but a request.

    Args:
        say: Gives it to an engine, and returns its id, which is another one each time.
    """

    __slots__ = ("_say",)

    def __init__(self, say: Callable[[PeerEngine], bytes]) -> None:
        super().__init__()
        self._say = say

    def give(self, engine: PeerEngine) -> None:
        """Say it, under a new id."""
        self.id = self._say(engine)
