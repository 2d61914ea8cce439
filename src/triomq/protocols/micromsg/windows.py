"""Who may send how many messages, and what is acknowledged: the two windows of a connection.

Messages have two numbers. On the wire a sequence number, 1 to 65,535 and 1 again. Everywhere else the number of the
message on this connection, in its direction: 1, 2, … without an end. Those of one that sends follow from each other;
a peer may jump, so where it has done that is remembered as long as an ack may name a number before the jump.

An ack names one sequence number and means all up to it (Batch-ack). It is looked up among what is outstanding, so one
that names nothing there is an old one, and changes nothing.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

SEQUENCES: Final = 65535
"""How many sequence numbers there are; 0 is none."""

UNLIMITED: Final = 1 << 40
"""Room where nothing is acknowledged."""


def sequence_of(number: int) -> int:
    """Return the sequence number of the nth message."""
    return (number - 1) % SEQUENCES + 1


class SendingWindow:
    """What this side has sent; owned by one engine.

    Args:
        size: messages that may be unacknowledged; 0 for no acks.
    """

    __slots__ = ("acknowledged", "room", "sent", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.sent = 0
        self.acknowledged = 0
        self.room = size or UNLIMITED
        """How many messages may be sent now."""

    def took(self, count: int) -> None:
        """Count messages that are sent."""
        self.sent += count
        if self.size:
            self.room -= count

    def acknowledge(self, sequence: int) -> int:
        """Take an ack; return how many messages it acknowledges, 0 if it is an old one."""
        if not sequence:
            return 0
        count = (sequence - sequence_of(self.acknowledged + 1)) % SEQUENCES + 1
        if count > self.sent - self.acknowledged:
            return 0
        self.acknowledged += count
        self.room += count
        return count


class ReceivingWindow:
    """What the peer has sent; owned by one engine.

    Args:
        size: messages after which an ack is due at the latest; 0 for no acks.
        limit: messages that the peer may have unacknowledged.
        is_exact: whether the peer takes an ack for less than a whole window as a request to send all again.
    """

    __slots__ = (
        "_after",
        "_beyond",
        "_offset",
        "_offsets",
        "acknowledged",
        "is_exact",
        "last",
        "limit",
        "received",
        "safe",
        "size",
    )

    def __init__(self, size: int, limit: int, *, is_exact: bool) -> None:
        self.size = size
        self.limit = limit
        self.is_exact = is_exact
        # Half of it keeps the other half on the way.
        self._after = size if is_exact else max(1, size // 2)
        self.received = 0
        self.safe = 0
        """The last message up to which all are safe."""
        self.acknowledged = 0
        """The last one that an ack was sent for."""
        self.last = 0
        """The sequence number of the last one."""
        self._offset = 0  # of sequence numbers to those that they would have without jumps
        self._offsets: deque[tuple[int, int]] = (
            deque()
        )  # from which message on which offset was in force, before the present
        self._beyond: set[int] = set()  # safe, behind one that is not

    @property
    def next(self) -> int:
        """The sequence number that is due."""
        return self.last % SEQUENCES + 1

    @property
    def room(self) -> int:
        """How many messages more the peer may send."""
        return self.limit - self.received + self.acknowledged if self.size else UNLIMITED

    @property
    def unacknowledged(self) -> int:
        """How many messages are safe and not acknowledged."""
        return self.safe - self.acknowledged

    @property
    def is_due(self) -> bool:
        """Whether so many are safe that an ack is not to wait."""
        return self.safe - self.acknowledged >= self._after

    @property
    def waiting(self) -> int:
        """A number that differs for each wait with an ack for less than is due; 0 if there is nothing to wait for.

        Usually the wait begins with the first message that is safe. For a peer that takes a small ack for a request to
        send again what it covers not, all that came must be safe, and the wait begins anew with each message.
        """
        if self.safe == self.acknowledged or not self.size:
            return 0
        if self.is_exact:
            return self.received if self.safe == self.received else 0
        return self.acknowledged + 1

    def took(self, count: int) -> None:
        """Count messages in a row whose sequence numbers follow each other."""
        self.received += count
        self.last = (self.last + count - 1) % SEQUENCES + 1

    def repeats(self, sequence: int) -> bool:
        """Return whether a number that is not due is one of the last window's."""
        return (self.last - sequence) % SEQUENCES < min(self.size, self.received)

    def jump_to(self, sequence: int) -> None:
        """Go on with another number than the one that was due."""
        if self.size:
            self._offsets.append((self.received + 1, self._offset))
            self._offset = (sequence - sequence_of(self.received + 1)) % SEQUENCES
        self.last = (sequence - 2) % SEQUENCES + 1

    def accept(self, up_to: int, single: Iterable[int]) -> None:
        """Note that messages are safe, by their numbers; those that have not come are not."""
        safe = max(self.safe, min(up_to, self.received))
        beyond = self._beyond
        for number in single:
            if safe < number <= self.received:
                beyond.add(number)
        if beyond:
            if safe > self.safe:
                beyond = self._beyond = {number for number in beyond if number > safe}
            while safe + 1 in beyond:
                safe += 1
                beyond.discard(safe)
        self.safe = safe

    def acknowledge(self) -> int:
        """Acknowledge all that is safe; return the sequence number to be sent."""
        self.acknowledged = self.safe
        return self.acknowledged_sequence

    @property
    def acknowledged_sequence(self) -> int:
        """The sequence number of the last message that was acknowledged."""
        number, offsets = self.acknowledged, self._offsets
        # What was in force before a jump is in force up to it.
        while offsets and offsets[0][0] <= number:
            offsets.popleft()
        offset = offsets[0][1] if offsets else self._offset
        return (number - 1 + offset) % SEQUENCES + 1
