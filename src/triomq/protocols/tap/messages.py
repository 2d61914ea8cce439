"""What stands in frames: each message is a MessagePack array, its kind first, then its fields in order.

The Structs are the specification's tables: msgspec reads and checks what comes by them, the reference draws them, and
they are the engine's events. A field with a default may be left out, a field behind the last one is a fault; of
greetings alone more fields are passed over, so that another version may have them.

Chunks of records are the last field of their message, as MessagePack's ``bin``. To this package they are bytes.
"""

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

import msgspec

VERSION: Final = 1
"""What this package speaks."""

# The bounds of fields, with the reason for each.

Number = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]
"""32 bits: a request, a partition, milliseconds, bytes."""

Offset = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFFFFFFFFFF)]
"""63 bits: offsets, batches and attempts, which are signed 64 bit numbers on disk and in Java."""

Identity = Annotated[int, msgspec.Meta(ge=0)]
"""64 bits of chance, as MessagePack's widest integer."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
"""As long as AMQP's names may be, so that every door can name what another one has made."""

Word = Annotated[str, msgspec.Meta(max_length=255)]
"""The same, or nothing."""

MOST_PARTITIONS: Final = 4096
"""Positions in one ACK: a stream with more partitions than this would be slower, not faster."""

MOST_PARTS: Final = 65536
"""Parts of one batch that is committed: the tasks of a job, which are hundreds."""


class TapMessage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of messages."""

    wire_name: ClassVar[str]
    """What the specification and the tables of states call it."""


# How a connection begins


class ClientGreeting(TapMessage, frozen=True, tag=0, forbid_unknown_fields=False):
    """The first frame of all: the highest version that the client speaks."""

    wire_name = "GREETING"
    protocol: Literal["tap"]
    version: Annotated[int, msgspec.Meta(ge=1, le=0xFFFF)]
    product: Word = ""


class ServerGreeting(TapMessage, frozen=True, tag=0, forbid_unknown_fields=False):
    """The answer: the version that both will speak, and how one may log in, best first."""

    wire_name = "GREETING"
    protocol: Literal["tap"]
    version: Annotated[int, msgspec.Meta(ge=1, le=0xFFFF)]
    product: Word = ""
    mechanisms: tuple[Word, ...] = ()


class LoginRequested(TapMessage, frozen=True, tag=1):
    """A SASL mechanism, its first response, and the domain to work in; the broker's first one if that is empty."""

    wire_name = "LOGIN"
    mechanism: Word
    response: bytes
    domain: Word = ""

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        return f"LoginRequested({self.mechanism!r}, …)"


class LoginChallenged(TapMessage, frozen=True, tag=1):
    """The mechanism needs one more response, to this challenge."""

    wire_name = "CHALLENGE"
    challenge: bytes


class ChallengeAnswered(TapMessage, frozen=True, tag=2):
    """The response to a challenge."""

    wire_name = "RESPONSE"
    response: bytes

    def __repr__(self) -> str:
        """Show no secret."""
        return "ChallengeAnswered(…)"


class Welcomed(TapMessage, frozen=True, tag=2):
    """The client is in; frames of up to so many bytes may be sent to the server."""

    wire_name = "WELCOME"
    max_frame: Number


# What a client asks


class TapRequest(TapMessage, frozen=True):
    """Base of requests, each of which is answered under its number, in the order in which they came."""

    number: Number


class PingAsked(TapRequest, frozen=True, tag=16):
    """Is the server there? Answered by DONE."""

    wire_name = "PING"


class OffsetsAsked(TapRequest, frozen=True, tag=17):
    """Which partitions has the stream, what may be read of each, and where is a group? Answered by BOUNDS.

    Args:
        number: the request's.
        stream: its name.
        group: whose positions are wanted; empty is nobody's. Of a queue: whose ledger.
        since: a time, in microseconds since 1970: where there is no position, the first record of then or later is one.
    """

    wire_name = "OFFSETS"
    stream: Name
    group: Word = ""
    since: Offset | None = None


class FetchAsked(TapRequest, frozen=True, tag=18):
    """Records of one partition from an offset on, in whole chunks. Answered by RECORDS.

    Args:
        number: the request's.
        stream: its name.
        partition: from 0.
        identity: the partition's, if the client knows it; with another one the request is refused.
        first: the first offset that is wanted.
        stop: the first one that is not wanted; none is wherever the answer ends.
        most_bytes: of chunks in the answer; one chunk comes even if it is larger.
        wait: milliseconds that the server may wait for records if there are none; a further request ends that.
        group: whose ledger is read, if ``stream`` is the name of a queue; empty for a stream.
    """

    wire_name = "FETCH"
    stream: Name
    partition: Number
    identity: Identity | None
    first: Offset
    stop: Offset | None = None
    most_bytes: Number = 1024 * 1024
    wait: Number = 0
    group: Word = ""


class GroupPosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Where a group is in one partition: the identity that it has read, if it is to be checked, and the next offset."""

    identity: Identity | None
    next: Offset


class AckAsked(TapRequest, frozen=True, tag=19):
    """Set where a group is, by partition; it may go back, but not in a ledger. Answered by DONE when it is on disk."""

    wire_name = "ACK"
    stream: Name
    group: Name
    positions: Annotated[dict[Number, GroupPosition], msgspec.Meta(max_length=MOST_PARTITIONS)]


class StageAsked(TapRequest, frozen=True, tag=20):
    """Records that nobody sees until they are committed. Answered by DONE.

    Args:
        number: the request's.
        target: where they will go: a queue or a stream, by its name.
        is_sink: whether it is a sink's name instead; the empty one is the default sink, whose keys are names of queues.
        writer: who writes: one query into one target.
        batch: which of the writer's batches they belong to.
        part: which part of the batch: a task's.
        attempt: which attempt at that part; of each part one is committed.
        chunk: the records; their offsets and times count for nothing.
    """

    wire_name = "STAGE"
    target: Word
    is_sink: bool
    writer: Word
    batch: Offset
    part: Number
    attempt: Offset
    chunk: bytes


class CommitAsked(TapRequest, frozen=True, tag=21):
    """Publish what was staged for a batch: one attempt of each part, all of it or nothing.

    Answered by DONE when it is on disk; so is a repetition, which publishes nothing.
    """

    wire_name = "COMMIT"
    target: Word
    is_sink: bool
    writer: Word
    batch: Offset
    attempts: Annotated[dict[Number, Offset], msgspec.Meta(max_length=MOST_PARTS)]


class AbortAsked(TapRequest, frozen=True, tag=22):
    """Drop what was staged for a batch: all of it, or one attempt at one part. Answered by DONE."""

    wire_name = "ABORT"
    target: Word
    is_sink: bool
    writer: Word
    batch: Offset
    part: Number | None = None
    attempt: Offset | None = None


class ListAsked(TapRequest, frozen=True, tag=23):
    """Which streams of the domain may the user read? Answered by STREAMS."""

    wire_name = "LIST"


class LeaseAsked(TapRequest, frozen=True, tag=24):
    """Move the first ready messages of a queue into the ledger of a group, where they are records. Answered by LEASED.

    Args:
        number: the request's.
        queue: the queue's name.
        group: the group's.
        most_records: how many at most; the server may move fewer. With 0 the ledger is made if it is not there.
        most_bytes: of messages; one is moved even if it is larger.
    """

    wire_name = "LEASE"
    queue: Name
    group: Name
    most_records: Number
    most_bytes: Number


Request: TypeAlias = (
    PingAsked | OffsetsAsked | FetchAsked | AckAsked | StageAsked | CommitAsked | AbortAsked | ListAsked | LeaseAsked
)
ClientMessage: TypeAlias = ClientGreeting | LoginRequested | ChallengeAnswered | Request

# What a server answers


class PartitionBounds(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One partition: its identity, its first offset, the next one, and where the group or the time is, if asked for."""

    identity: Identity
    first: Offset
    next: Offset
    position: Offset | None = None


class DoneAnswered(TapRequest, frozen=True, tag=16, gc=False):
    """It is done, and on disk where it is to be."""

    wire_name = "DONE"


class BoundsAnswered(TapRequest, frozen=True, tag=17):
    """The partitions, from 0 on."""

    wire_name = "BOUNDS"
    partitions: tuple[PartitionBounds, ...]


class RecordsAnswered(TapRequest, frozen=True, tag=18):
    """Whole chunks in a row; the first one has the offset that was asked for, and may begin before it.

    ``bounds`` are the partition's. No chunks: there are no such records yet, and the wait is over.
    """

    wire_name = "RECORDS"
    bounds: PartitionBounds
    chunks: memoryview


class RequestRefused(TapRequest, frozen=True, tag=19):
    """The request is refused, and nothing was changed. OUT_OF_RANGE and OTHER_STREAM come with the bounds."""

    wire_name = "ERROR"
    code: str
    text: str
    bounds: PartitionBounds | None = None


class StreamsAnswered(TapRequest, frozen=True, tag=20):
    """Names of streams in order, each once, however many partitions it has."""

    wire_name = "STREAMS"
    names: tuple[str, ...]


class LeasedAnswered(TapRequest, frozen=True, tag=21):
    """What the ledger has now, on disk if the queue is durable; and how many messages are still ready in the queue."""

    wire_name = "LEASED"
    bounds: PartitionBounds
    ready: Offset


class ServerClosing(TapMessage, frozen=True, tag=3):
    """The last word: the server ends the connection. What is not answered has been done or not."""

    wire_name = "CLOSE"
    code: str
    text: str


Answer: TypeAlias = DoneAnswered | BoundsAnswered | RecordsAnswered | RequestRefused | StreamsAnswered | LeasedAnswered
ServerMessage: TypeAlias = ServerGreeting | LoginChallenged | Welcomed | Answer | ServerClosing

CLIENT_MESSAGES: Final[tuple[type[TapMessage], ...]] = (
    ClientGreeting,
    LoginRequested,
    ChallengeAnswered,
    PingAsked,
    OffsetsAsked,
    FetchAsked,
    AckAsked,
    StageAsked,
    CommitAsked,
    AbortAsked,
    ListAsked,
    LeaseAsked,
)
SERVER_MESSAGES: Final[tuple[type[TapMessage], ...]] = (
    ServerGreeting,
    LoginChallenged,
    Welcomed,
    ServerClosing,
    DoneAnswered,
    BoundsAnswered,
    RecordsAnswered,
    RequestRefused,
    StreamsAnswered,
    LeasedAnswered,
)

ANSWERED_BY: Final[dict[type[TapMessage], type[TapMessage]]] = {
    PingAsked: DoneAnswered,
    OffsetsAsked: BoundsAnswered,
    FetchAsked: RecordsAnswered,
    AckAsked: DoneAnswered,
    StageAsked: DoneAnswered,
    CommitAsked: DoneAnswered,
    AbortAsked: DoneAnswered,
    ListAsked: StreamsAnswered,
    LeaseAsked: LeasedAnswered,
}
"""What a request is answered by, if it is not refused."""
