"""One task's part of a batch: staged at the broker, and named to the driver, which commits all parts or none.

    task 0 ── STAGE, STAGE, … ──▶ ┐                     driver
    task 1 ── STAGE, STAGE, … ──▶ ├ broker's memory  ◀── COMMIT {part 0: its attempt, part 1: its attempt}
       │                          ┘                        ▲
       └──────────── StagedPart (by Spark) ────────────────┘

Rules:

- A batch is (target, writer, batch number), and each is committed once, whoever asks how often. With several targets
  each has a commit of its own: if one fails, the batch is written again, and those that were committed are passed over.
- A task that is run twice, by a retry or on suspicion that it is slow, stages two *attempts* under random numbers. Its
  number at Spark would not do: after a restart of the driver it comes again, and the rows of a task that was killed
  would still be staged under it.
- When the connection is lost nobody knows what has arrived, and a broker that was restarted has nothing: so the part is
  staged again from its beginning, as another attempt. Therefore a task has its chunks in memory until it ends. They
  are no more than the broker takes for a batch.
- A commit whose answer was lost is sent again: if it has been done it is not done again. If the stages are gone with
  the broker's memory (``UnknownStage``) only Spark has the rows: the query ends, and goes on when it is started again.

Not done: commit messages with the rows in them. They would survive a restart of the broker, and pass the driver with
every batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from secrets import randbits
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from pyspark.sql.datasource import WriterCommitMessage

from triomq.clients import TapConnection
from triomq.errors import AccessRefused, Disconnected, LimitExceeded, NotFound, Refused, TriomqError, UnknownStage
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.row_plan import RowPlan, RowTarget
from triomq.pipeline.sink_options import SparkSinkOptions

if TYPE_CHECKING:
    import pyarrow as pa


_ATTEMPT_BITS: Final = 62
"""Of the random number of an attempt; a number of tap has 63."""


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """What a task has staged; goes to the driver.

    Args:
        writer: Whose batch it is a part of.
        batch: Which batch of the writer.
        part: Which part of it.
        attempt: Under which number.
        targets: For which targets there are rows.
    """

    writer: str
    batch: int
    part: int
    attempt: int
    targets: tuple[RowTarget, ...]


class PartStager:
    """Stages the rows of one task; made and ended by its writer.

    Args:
        link: To the broker.
        plan: How rows become records.
        writer: Whose batch it is; empty for one that the broker is not to remember.
        batch: Which batch of the writer.
        part: Which part of it.
    """

    def __init__(self, link: BrokerLink, plan: RowPlan, writer: str, batch: int, part: int) -> None:
        self._link = link
        self._plan = plan
        self._writer = writer
        self._batch = batch
        self._part = part
        self._attempt = randbits(_ATTEMPT_BITS)
        self._chunks: list[tuple[RowTarget, bytes]] = []
        self._staged = 0  # how many of them, on this connection
        self._connection: TapConnection | None = None
        self.size = 0
        """Bytes of all chunks."""

    def add(self, rows: "pa.RecordBatch") -> None:
        """Stage rows.

        Raises:
            ConfigError: A row cannot be a record.
            TriomqError: The broker does not take them, or is not there.
        """
        from triomq.pipeline.rows import encode_rows  # 50 ms, for Arrow's functions, which the driver can do without

        for target, chunk in encode_rows(rows, self._plan):
            self._chunks.append((target, chunk))
            self.size += len(chunk)
            with _explained(f"rows for {target} are not staged", _STAGING):
                self._link.call(self._stage)

    def _stage(self, tap: TapConnection) -> None:
        """Stage what is not staged yet: everything, on another connection."""
        if tap is not self._connection:
            if self._connection is not None:
                self._abort(tap)
                self._attempt = randbits(_ATTEMPT_BITS)
            self._connection, self._staged = tap, 0
        while self._staged < len(self._chunks):
            target, chunk = self._chunks[self._staged]
            tap.stage(
                target.name,
                self._writer,
                batch=self._batch,
                part=self._part,
                attempt=self._attempt,
                chunk=chunk,
                is_sink=target.is_sink,
            )
            self._staged += 1

    def stage_again(self) -> None:
        """Stage everything once more: the broker has it no longer."""
        self._attempt, self._staged = randbits(_ATTEMPT_BITS), 0
        self._link.call(self._stage)

    def staged(self) -> StagedPart:
        """Return what is staged."""
        targets = tuple(dict.fromkeys(target for target, _ in self._chunks))
        return StagedPart(self._writer, self._batch, self._part, self._attempt, targets)

    def drop(self) -> None:
        """Have the broker forget what is staged, if it can be reached at once."""
        if self._connection is not None:
            with suppress(TriomqError):
                self._abort(self._connection)

    def _abort(self, tap: TapConnection) -> None:
        part = self.staged()
        for target in part.targets:
            _abort(part, target, tap)


def stage_part(
    options: SparkSinkOptions, plan: RowPlan, writer: str, batch: int, part: int, rows: "Iterable[pa.RecordBatch]"
) -> StagedPart:
    """Stage the rows of a task, and return what the driver commits; what fails leaves nothing staged."""
    with closing(BrokerLink(options)) as link:
        stager = PartStager(link, plan, writer, batch, part)
        try:
            for each in rows:
                stager.add(each)
        except BaseException:
            stager.drop()
            raise
        return stager.staged()


def commit_messages(options: SparkSinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Publish what tasks have staged; see ``commit_parts``."""
    with closing(BrokerLink(options)) as link:
        commit_parts(link, _staged_parts(messages))


def abort_messages(options: SparkSinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Have the broker forget what tasks have staged, if it can be reached at once: one that restarts has none of it.

    What is not there is no error.
    """
    with suppress(TriomqError), closing(BrokerLink(replace(options, retries=0))) as link:
        for part in _staged_parts(messages):
            for target in part.targets:
                link.call(partial(_abort, part, target))


def _staged_parts(messages: Sequence[WriterCommitMessage | None]) -> list[StagedPart]:
    """Return what tasks have staged; one that failed has nothing."""
    return [each for each in messages if isinstance(each, StagedPart)]


def commit_parts(link: BrokerLink, parts: Iterable[StagedPart]) -> None:
    """Publish the parts of a batch: for each target all or none; when this returns they are on disk.

    Args:
        link: To the broker.
        parts: All of one batch.

    Raises:
        UnknownStage: The broker has lost what was staged.
        Refused: A queue does not take it, or the user may not.
        Disconnected: The broker was not there for all of the retries.
    """
    by_target: dict[RowTarget, list[StagedPart]] = {}
    for part in parts:
        for target in part.targets:
            by_target.setdefault(target, []).append(part)
    for target, of_target in by_target.items():
        with _explained(f"batch {of_target[0].batch} is not committed into {target}", _COMMITTING):
            link.call(partial(_commit, of_target, target))


def _commit(parts: Sequence[StagedPart], target: RowTarget, tap: TapConnection) -> None:
    attempts = {part.part: part.attempt for part in parts}
    tap.commit(target.name, parts[0].writer, batch=parts[0].batch, attempts=attempts, is_sink=target.is_sink)


def _abort(part: StagedPart, target: RowTarget, tap: TapConnection) -> None:
    tap.abort(target.name, part.writer, batch=part.batch, part=part.part, attempt=part.attempt, is_sink=target.is_sink)


_STAGING: Final = (
    (NotFound, "declare it before, for example by triomq's or AMQP's clients; the sink makes none"),
    (AccessRefused, ""),
    (LimitExceeded, "one row is larger than the broker takes: make it smaller, or raise max_frame of its tap endpoint"),
    (
        Refused,
        "a batch has too many rows: set the option maxOffsetsPerTrigger or maxBytesPerTrigger of the source. Spark has "
        "planned this batch already, and writes it again as it is; for it raise max_batch of the broker's tap "
        "endpoint, or, if it is the first one, begin with a new checkpoint",
    ),
)
_COMMITTING: Final = (
    (
        UnknownStage,
        "the broker was restarted, or more than an hour has passed. Start the query again: Spark writes this batch "
        "once more, and nothing is lost or there twice",
    ),
    (
        Disconnected,
        "whether it was published before is not known. Start the query again: Spark writes this batch once more, and "
        "if it has been committed it is passed over",
    ),
    (TriomqError, "nothing of it was published there; mend that and run it again"),
)


@contextmanager
def _explained(what: str, advice: Sequence[tuple[type[TriomqError], str]]) -> Iterator[None]:
    """Add to an error what has not happened, and what to do."""
    try:
        yield
    except TriomqError as error:
        found = next((text for kind, text in advice if isinstance(error, kind)), "")
        error.add_note(f"{what}; {found}" if found else what)
        raise
