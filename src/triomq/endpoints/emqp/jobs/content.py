"""What the broker knows of a job of its book beside its payload: REQUESTs of peers with our extensions.

    content = properties (as ``RequestProperties``, and more behind) + payload, as it came

They have a codec tag of their own, so that jobs of released clients, which no book knows, take a way that asks for none
of this. A message has all that is needed to do its job, in another life of the broker too.
"""

import struct
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from triomq.core import Batch, HeaderValue, Properties, pack_arguments
from triomq.endpoints.emqp.content import Origin, RequestProperties, from_properties, unpack_added
from triomq.endpoints.jobs import FIRST_PAUSE, LONGEST_PAUSE, PLAIN, BookedJob, JobSender, Terms
from triomq.errors import ProtocolError, Refused
from triomq.protocols.emqp import NO_EXTENSION, Extension, Headers, encode_extension

JOB_CODEC: Final = 3
"""The codec tag of properties as this file writes them."""

JOB_PREFIXES: Final = [b"\x99\xc4%c" % size for size in range(256)]
"""What stands before the id, by its length: MessagePack's marks of an array of nine, and of bytes."""

_ORIGINS: Final = 1024
"""Origins that are remembered: one for each client's definition of a job."""


class JobProperties(RequestProperties, frozen=True, array_like=True, gc=False):
    """The properties of a job.

    Args:
        begun: How many attempts were made with earlier messages of this job.
        priority: From 0 to 9, the highest first.
        deadline: Unix time after which it is not begun any more; 0 is never. The last, since each job may have another
            one: all between that and the id is the same for jobs that are alike.
    """

    begun: int = 0
    priority: int = 0
    deadline: float = 0.0


encode_job: Final = msgspec.msgpack.Encoder().encode
"""Encode the properties."""

decode_job: Final = msgspec.msgpack.Decoder(JobProperties).decode
"""Decode the properties."""

_DEADLINE: Final = struct.Struct(">Bd")
_FLOAT: Final = 0xCB  # MessagePack's mark of a float of eight bytes


def encode_deadline(deadline: float) -> bytes:
    """Encode the end of the properties."""
    return _DEADLINE.pack(_FLOAT, deadline)


_NEVER: Final = encode_deadline(0.0)


def split_job(encoded: bytes) -> tuple[bytes, bytes, float]:
    """Return the id in encoded properties, what is the same for all jobs that are alike, and the deadline."""
    behind, end = 3 + encoded[2], len(encoded) - _DEADLINE.size
    return encoded[3:behind], encoded[behind:end], _DEADLINE.unpack_from(encoded, end)[1]


def terms_of(extension: Extension, headers: Headers, now: float) -> Terms:
    """Return what is asked for a job.

    Args:
        extension: Its extension.
        headers: Its headers.
        now: The Unix time, from which what is left of its deadline counts.

    Raises:
        Refused: What is asked makes no sense.
    """
    retries = extension.retries or headers.retry_count
    if extension is NO_EXTENSION:
        return Terms(retries=retries) if retries else PLAIN
    if (extension.limit or extension.rate) and not extension.key:
        raise Refused("a limit or a rate needs a key, which says of which jobs it is one; add `key`")
    parent = (extension.parent[0].encode(), extension.parent[1]) if extension.parent else (b"", 0)
    first, most = extension.backoff or (0, 0)
    counts = bool(extension.limit or extension.rate)
    terms = Terms(
        deadline=0.0 if extension.deadline is None else now + extension.deadline / 1000,
        retries=retries,
        backoff=(first / 1000, max(first, most) / 1000) if extension.backoff else (FIRST_PAUSE, LONGEST_PAUSE),
        parent=parent,
        unique=extension.unique,
        key=extension.key if counts else "",
        limit=extension.limit,
        rate=extension.rate,
        tie=extension.tie,
        shared=extension.shared and bool(extension.unique or counts),
    )
    return PLAIN if terms == PLAIN else terms


class JobOrigin(Origin):
    """Where jobs came from, and how they are to be done; the same object for all that agree in that.

    Args:
        found: The properties of one of them; their id does not matter.
    """

    __slots__ = ("begun", "sender", "terms", "timeout")

    def __init__(self, found: JobProperties) -> None:
        super().__init__(found)
        self.begun = found.begun
        self.sender = JobSender(self.user, self.identity)
        self.timeout = self.extension.timeout / 1000 or self.headers.timeout
        """Seconds that an attempt may take; 0 is without limit."""
        self.terms = terms_of(msgspec.structs.replace(self.extension, deadline=None), self.headers, 0.0)
        """What is asked for them, but for deadlines."""

    def entry(self, job: bytes, queue: str, deadline: float, *, durable: bool) -> BookedJob:
        """Return a job as its message has it."""
        terms = msgspec.structs.replace(self.terms, deadline=deadline) if deadline else self.terms
        return BookedJob(job, queue, self.sender, terms, durable=durable)

    def frame(self, attempt: int, deadline: float, now: float) -> bytes:
        """Return the extension frame for a worker: which attempt it makes, and how much time is left at ``now``."""
        if not deadline:
            return self.extension_frame(attempt)
        left = max(0, round((deadline - now) * 1000))
        return encode_extension(msgspec.structs.replace(self.extension, attempt=attempt, deadline=left))


class JobOrigins:
    """The origins of a domain's jobs, for all workers of an endpoint."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[bytes, JobOrigin] = {}

    def find(self, alike: bytes) -> JobOrigin:
        """Return the origin that stands between id and deadline (``split_job``)."""
        return self._found.get(alike) or self._add(alike)

    def _add(self, alike: bytes) -> JobOrigin:
        if len(self._found) >= _ORIGINS:
            self._found.clear()
        origin = self._found[alike] = JobOrigin(decode_job(JOB_PREFIXES[0] + alike + _NEVER))
        return origin


def job_properties(batch: Batch, position: int) -> tuple[JobProperties, bytes]:
    """Return the properties and the payload of a job that is out."""
    message = batch.message(position)
    return decode_job(message.properties), message.body


def from_job(encoded: bytes) -> Properties:
    """Decode the properties of a job into the core's form."""
    try:
        found = decode_job(encoded)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"these are no properties of a job: {error}") from None
    return msgspec.structs.replace(from_properties(found), priority=found.priority or None)


def amend_job(
    encoded: bytes, headers: Mapping[str, HeaderValue], *, drop_expiration: bool, without: Collection[str] = ()
) -> tuple[bytes, int]:
    """Set headers of the broker's own; see ``core.Amend``."""
    found = decode_job(encoded)
    merged = {**unpack_added(found.added), **headers}
    left = {name: value for name, value in merged.items() if name not in without}
    return encode_job(msgspec.structs.replace(found, added=pack_arguments(left) if left else b"")), 0
