"""Kinds of Contents: how one is known to be in order without a look at each entry of its table.

    05 │ sequence │ resource │ table: length, names, types, lengths │ values
          skip      `--------------- fixed ------------------------'  skip, but for a few

Writers repeat themselves: neighbours have the same table, or tables that differ in values alone. So what was read in
full once is remembered in two ways:

- by all octets behind the sequence, which is one slice and one look into a dict;
- by a form: which octets of a header of that length are fixed (``protocols/layouts.py``). ``unpack_from`` reads them in
  C, and what was read leads to the kind.

Rules:

- Nothing is taken that reading in full would refuse: only values are skipped, and none can be wrong.
- The values that a broker acts on are not skipped, so Contents of one kind have the same: ``FIXED_NAMES``.
- A form is learned when a second header of a length comes, and anew after ``PATIENCE`` that it did not fit.
- All tables are bounded; when one is full it begins anew.

Measured for a table of 150 octets with content-type, message-id, timestamp and three headers, in µs: in full 14; by all
octets 0.12; by a form 0.55.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from triomq.protocols.fields import VALUE_SIZES, Table
from triomq.protocols.layouts import LONGEST, MOST_PARTS, find_values, parts_of
from triomq.protocols.mtl.headers import BEHIND_SEQUENCE, read_text
from triomq.protocols.mtl.properties import ContentProperties, content_of, read_content_table

FIXED_NAMES: Final = frozenset(
    (
        b"address",
        b"exchange",
        b"redelivered",
        b"expiration",
        b"priority",
        b"delivery-mode",
        b"reply-to",
        b"user-id",
    )
)
"""Properties that all Contents of one kind have the same values of."""

FORMS: Final = 64
"""Forms that a flow remembers, each of another length; a writer has a few."""

KINDS: Final = 512
"""Kinds that a flow remembers in each of both ways. Each takes as much as its table, and half a KiB."""

PATIENCE: Final = 64
"""Headers of a form's length that do not fit, before another form is learned in its place."""

_TIMESTAMP: Final = ord("T")


class ContentKind:
    """What Contents have in common that go to one resource, and whose tables differ in some values at most.

    The same kind is the same object, for as long as the flow remembers it, so that an owner may remember by identity.

    Args:
        resource: The name that they have.
        table: The table of the first one, its four octets of length included.
        properties: What stands in it. Of others, what is in ``FIXED_NAMES`` is the same, and present is what is here.
    """

    __slots__ = ("properties", "resource", "table")

    def __init__(self, resource: str, table: bytes, properties: ContentProperties) -> None:
        self.resource = resource
        self.table = table
        self.properties = properties

    @property
    def size(self) -> int:
        """How many octets the table of each has."""
        return len(self.table)


class _Form:
    """What headers of one length have in common that differ in values.

    Args:
        parts: How many octets behind the sequence are fixed, free, fixed … in turn.
    """

    __slots__ = ("kinds", "misses", "parts", "read")

    def __init__(self, parts: tuple[int, ...]) -> None:
        self.parts = parts
        pieces = "".join(f"{size}{'x' if place % 2 else 's'}" for place, size in enumerate(parts) if size)
        self.read: Callable[[bytes], tuple[Any, ...]] = struct.Struct(f">{BEHIND_SEQUENCE}x{pieces}").unpack
        """Reads the fixed octets of a header of this length."""
        self.kinds: dict[tuple[Any, ...], ContentKind] = {}
        self.misses = 0


class ContentKinds:
    """The kinds that a flow remembers; made by its engine.

    Args:
        most_fields: Values that a table may have; 0 is without limit.
    """

    __slots__ = ("_forms", "_known", "_last", "_most_fields", "_seen")

    def __init__(self, most_fields: int = 0) -> None:
        self._most_fields = most_fields
        self._last: tuple[bytes, ContentKind] | None = None  # of a header that is too long to be remembered
        self._known: dict[bytes, ContentKind] = {}
        self._forms: dict[int, _Form] = {}
        self._seen: set[int] = set()  # lengths of which one header has come

    def find(self, header: bytes) -> ContentKind:
        """Return the kind of a Content by its header.

        Raises:
            WireFault: The header is ill-formed.
            InvalidContent: A property is not of its type, or there are too many.
        """
        if self._last is not None and self._last[0] is header:  # it is asked for again while it is answered
            return self._last[1]
        suffix = header[BEHIND_SEQUENCE:]
        kind = self._known.get(suffix)
        if kind is None:
            form = self._forms.get(len(header))
            if form is not None:
                kind = form.kinds.get(form.read(header))
        return kind or self._add(header, suffix)

    def is_of(self, kind: ContentKind, header: bytes) -> bool:
        """Return whether a header is known to be one of a kind; if not it may be all the same."""
        form = self._forms.get(len(header))
        return form is not None and form.kinds.get(form.read(header)) is kind

    def _add(self, header: bytes, suffix: bytes) -> ContentKind:
        resource, start = read_text(header, BEHIND_SEQUENCE)
        entries = read_content_table(header, start, self._most_fields)
        kind = ContentKind(resource, header[start:], content_of(entries))
        if len(suffix) > LONGEST:
            self._last = (header, kind)
            return kind
        if len(header) in self._seen:
            self._learn(header, suffix, start - BEHIND_SEQUENCE, kind, entries)
        else:
            self._seen = {*self._seen, len(header)} if len(self._seen) < FORMS else {len(header)}
        if len(self._known) >= KINDS:
            self._known.clear()
        self._known[suffix] = kind
        return kind

    def _learn(self, header: bytes, suffix: bytes, start: int, kind: ContentKind, entries: Table) -> None:
        """Remember a kind by the form of its header."""
        parts = _parts(suffix, start)
        if len(parts) > MOST_PARTS:
            return
        form = self._forms.get(len(header))
        if form is None or form.parts != parts:
            if form is not None and form.misses < PATIENCE:
                form.misses += 1
                return
            if len(self._forms) >= FORMS:
                self._forms.clear()
            form = self._forms[len(header)] = _Form(parts)
        elif len(form.kinds) >= KINDS:
            form.kinds.clear()
        form.kinds[form.read(header)] = kind


def _parts(suffix: bytes, start: int) -> tuple[int, ...]:
    """Return how many octets of what stands behind a sequence are fixed, free, fixed … in turn.

    Args:
        suffix: What stands there; it is in order.
        start: Where its table begins.
    """
    free: list[tuple[int, int]] = []
    find_values(suffix, start, free, set())
    kept = _kept(suffix, start + 4)
    loose = [place for place in free if place[1] > place[0] and place not in kept]
    return parts_of(loose, len(suffix))


def _kept(table: bytes, position: int) -> set[tuple[int, int]]:
    """Return where the values stand that may not be skipped."""
    kept: set[tuple[int, int]] = set()
    while position < len(table):
        name = table[position + 1 : position + 1 + table[position]]
        code = table[position + 1 + len(name)]
        position += 2 + len(name)
        size = VALUE_SIZES.get(code)
        if size is None:
            size = int.from_bytes(table[position : position + 4], "big")
            position += 4
        if name in FIXED_NAMES or (name == b"timestamp" and code != _TIMESTAMP):
            kept.add((position, position + size))
        position += size
    return kept
