"""Data commands in a row that are alike, read in one pass: Contents of one kind, and Confirms.

What is heard most comes so. Here a message costs some comparisons, and one event stands for all of a run. What does not
fit ends the run, and is for ``receive``, which says what is wrong with it, if anything is.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from triomq.protocols.mtl.headers import BEHIND_SEQUENCE, CONFIRM, CONTENT
from triomq.protocols.mtl.kinds import ContentKind, ContentKinds

_CONFIRM_SIZE: Final = 10


class ContentRun(msgspec.Struct, frozen=True):
    """Contents in a row that are of one kind.

    Args:
        resource: Where they go, or come from: the one of the lease where they name none.
        kind: What they have in common.
        tables: The table of each, its four octets of length included; all as long as that of the kind.
        sequences: The number of each, rising where contents are confirmed.
        bodies: The body of each.
    """

    resource: str
    kind: ContentKind
    tables: Sequence[bytes]
    sequences: Sequence[int]
    bodies: Sequence[bytes]

    @property
    def count(self) -> int:
        """How many messages it were."""
        return len(self.bodies)


class ConfirmRun(msgspec.Struct, frozen=True):
    """Confirms in a row.

    Args:
        up_to: The highest number up to which all contents are confirmed, of those that were sent; 0 if none says so.
        sequences: Contents that are confirmed singly.
        count: How many messages it were.
    """

    up_to: int
    sequences: Sequence[int]
    count: int


def read_contents(
    messages: Sequence[Sequence[bytes]], start: int, kind: ContentKind, kinds: ContentKinds, largest: int, above: int
) -> tuple[list[bytes], list[int], list[bytes]]:
    """Read Contents of one kind from ``start`` on, of which the first is known to be of that kind.

    Args:
        messages: What has come.
        start: Where the first stands.
        kind: Of all of them.
        kinds: Of the flow.
        largest: Bytes that a body may have.
        above: The number that those of the Contents are above, each above the one before it; -1 if that is not checked.

    Returns:
        Their tables, sequences and bodies.
    """
    size, is_checked = kind.size, above >= 0
    tables: list[bytes] = []
    sequences: list[int] = []
    bodies: list[bytes] = []
    suffix = messages[start][0][BEHIND_SEQUENCE:]
    table = suffix[-size:]
    from_bytes, is_of = int.from_bytes, kinds.is_of
    for frames in islice(messages, start, None):
        if len(frames) != 2:
            break
        header, body = frames
        if header[BEHIND_SEQUENCE:] != suffix:
            if not is_of(kind, header) or header[0] != CONTENT:
                break
            suffix = header[BEHIND_SEQUENCE:]
            table = suffix[-size:]
        elif header[0] != CONTENT:
            break
        sequence = from_bytes(header[1:BEHIND_SEQUENCE], "big")
        if sequence <= above or not sequence or len(body) > largest:
            break
        if is_checked:
            above = sequence
        tables.append(table)
        sequences.append(sequence)
        bodies.append(body)
    return tables, sequences, bodies


def read_confirms(messages: Sequence[Sequence[bytes]], start: int, last: int) -> ConfirmRun | None:
    """Read Confirms from ``start`` on; none if the first needs a closer look.

    Args:
        messages: What has come.
        start: Where the first stands.
        last: The highest number that was sent.
    """
    up_to = count = 0
    sequences: list[int] = []
    for frames in islice(messages, start, None):
        if len(frames) != 2:
            break
        header = frames[0]
        if len(header) != _CONFIRM_SIZE or header[0] != CONFIRM or header[-1] > 1:
            break
        sequence = int.from_bytes(header[1:BEHIND_SEQUENCE], "big")
        if not sequence or not last or (sequence > last and not header[-1]):
            break  # it confirms nothing
        count += 1
        if header[-1]:
            up_to = max(up_to, min(sequence, last))
        else:
            sequences.append(sequence)
    return ConfirmRun(up_to, sequences, count) if count else None
