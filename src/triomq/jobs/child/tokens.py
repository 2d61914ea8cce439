"""The worker's ends of one child process: several jobs may be under way to it, and its death loses and doubles none.

    tokens   worker ══▶ child   a socket pair; each token is the number of one job, in eight bytes
    jobs     worker ──▶ child   a pipe; frames of number, length, job
    results  worker ◀── child   a pipe; frames of number, kind, seconds, length, answer
    life     worker ──▶ child   a pipe with nothing in it: its end tells the child that its worker is gone

The child takes **one** token, runs that job, writes its answer, takes the next. The worker has the child's end of the
tokens open too. So the kernel knows, at any moment and after any death, what became of each job:

    its answer was read           done
    its token can be taken back   not begun: it goes elsewhere, and its attempt does not count
    else                          the victim, at most one: the job that ran when the child died

- After a death the results are read to their end first, then the tokens: what the child has written in its last moment
  is done, and not its victim.
- Tokens are taken back from a living child as well, when a job takes long and others wait behind it. The child still
  has the bytes of those jobs. It drops them when a token with a higher number comes; numbers only grow.
- The tokens are in a socket pair, and taken back with ``MSG_DONTWAIT``. O_NONBLOCK belongs to the open file, which the
  child has inherited: with a non-blocking pipe the child would find no token where it is to wait for one.
- All tokens of a chunk go in one call, and all reads are of whole tokens, so that the kernel never parts one.
- Writing to a child that has died is no error. Its tokens say that the jobs were not begun.
- Nothing here waits. What the pipe of jobs does not take stays in ``_unwritten``; at most ``MOST_BYTES`` are under way,
  which is what a pipe takes, except for a larger job, which goes alone.

Dropped: a SEQPACKET pair, which takes a call for each token, and each wakes the child (7 µs a job more); answers in
batches, which lose those of jobs that are done. A write of each answer takes 1.5 µs in the child, and the worker reads
many at once anyway.
"""

import fcntl
import os
import socket
import struct
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from triomq.process import close_in_forks

J = TypeVar("J")

MOST_JOBS: Final = 32
"""Jobs under way to a child. With more the cost of a wake-up is spread no thinner (64 for 32: 52 µs for 72 a job in
all), and more would be taken back after each death."""

MOST_BYTES: Final = 1 << 16
"""Bytes of jobs under way to a child: what a pipe takes on Linux."""

_READ: Final = 1 << 18
"""Bytes of answers that are read at once."""

TOKEN: Final = struct.Struct("<Q")
_TOKENS: Final = TOKEN.size * MOST_JOBS
JOB_HEAD: Final = struct.Struct("<QI")
ANSWER_HEAD: Final = struct.Struct("<QBdI")


class Kind(IntEnum):
    """The kinds of answers; those that end a job are ``DONE`` and above."""

    READY = 0
    """Number 0: the child has imported the registry."""
    BROKEN = 1
    """Number 0: it cannot; the body says why."""
    PROGRESS = 2
    ITEM = 3
    DONE = 4
    FAILED = 5


class ChildAnswer(NamedTuple, Generic[J]):
    """What a child has said about a job.

    Args:
        job: None for what the child says about itself.
        kind: What it is.
        seconds: How long the job took, where it has ended.
        body: As the child wrote it.
    """

    job: J | None
    kind: Kind
    seconds: float
    body: bytes


class ChildEnds(NamedTuple):
    """The descriptors that a child inherits, in the order of its arguments."""

    jobs: int
    tokens: int
    results: int
    life: int


class ChildPipes(Generic[J]):
    """The worker's ends of one child; made before it is started, closed after its death."""

    def __init__(self) -> None:
        self._tokens, self._untaken = map(close_in_forks, socket.socketpair())
        jobs, self._jobs = os.pipe()
        self.results, results = os.pipe()
        life, self._life = os.pipe()
        os.set_blocking(self._jobs, False)
        os.set_blocking(self.results, False)
        self.child = ChildEnds(jobs, self._untaken.fileno(), results, life)
        self._open = {self._jobs, self.results, self._life, jobs, results, life}
        close_in_forks(self, lambda pipes: pipes._open)
        self._held: dict[int, tuple[J, int]] = {}  # what was given and not answered, in order, with its bytes
        self._bytes = 0  # of those
        self._number = 0  # of the last job
        self._unwritten = bytearray()
        self._unread = bytearray()
        self._needed = 0  # bytes of which one answer is made that has not come whole

    def started(self) -> None:
        """Close the child's ends, once it has them; the end of the tokens stays, to take them back."""
        self._close(self.child.jobs, self.child.results, self.child.life)

    def finish(self) -> None:
        """Tell the child that no more comes: it ends when it has done what it holds."""
        self._tokens.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close all."""
        self._close(self._jobs, self.results, self._life)
        self._tokens.close()
        self._untaken.close()

    def _close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            self._open.discard(descriptor)
            os.close(descriptor)

    @property
    def held(self) -> int:
        """How many jobs were given and neither answered nor taken back."""
        return len(self._held)

    @property
    def jobs(self) -> list[J]:
        """Those jobs; the first is the one that runs, if one does."""
        return [job for job, _ in self._held.values()]

    @property
    def first(self) -> J | None:
        """The job that runs, or will next."""
        for job, _ in self._held.values():
            return job
        return None

    @property
    def is_writing(self) -> bool:
        """Whether ``write`` has more to write when ``jobs_end`` is writable."""
        return bool(self._unwritten)

    @property
    def jobs_end(self) -> int:
        """The descriptor that ``write`` writes to."""
        return self._jobs

    @property
    def size(self) -> int:
        """The bytes of those jobs."""
        return self._bytes

    def set_up(self, body: bytes) -> None:
        """Send the first frame, for which no token is needed."""
        self._unwritten += JOB_HEAD.pack(0, len(body)) + body
        self.write()

    def give(self, jobs: list[tuple[J, bytes]]) -> None:
        """Give jobs, each with its bytes, for which there is room."""
        number = first = self._number
        for job, body in jobs:
            number += 1
            self._held[number] = (job, len(body))
            self._bytes += len(body)
            self._unwritten += JOB_HEAD.pack(number, len(body))
            self._unwritten += body
        self._number = number
        self.write()  # first, so that the child finds the job when the token wakes it
        # Our own end is open, so this is never a broken pipe; and 32 tokens always find room.
        self._tokens.send(b"".join(map(TOKEN.pack, range(first + 1, number + 1))), socket.MSG_DONTWAIT)

    def write(self) -> None:
        """Write what the pipe takes."""
        try:
            while self._unwritten:
                del self._unwritten[: os.write(self._jobs, self._unwritten)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the tokens tell what was not begun
            self._unwritten.clear()

    def take_back(self) -> list[J]:
        """Return the jobs that the child has not begun, and now will not."""
        found = []
        try:
            while tokens := self._untaken.recv(_TOKENS, socket.MSG_DONTWAIT):
                for (number,) in TOKEN.iter_unpack(tokens):
                    job, size = self._held.pop(number)
                    self._bytes -= size
                    found.append(job)
        except BlockingIOError:
            pass
        return found

    def read(self) -> list[ChildAnswer[J]] | None:
        """Return the answers that have come whole; None at the end of the pipe."""
        try:
            data = os.read(self.results, _READ)
        except BlockingIOError:
            return []
        return self._answers(data) if data else None

    def read_last(self) -> list[ChildAnswer[J]]:
        """Return what a child has answered before it died; ``take_back`` and ``victim`` follow.

        The end of the pipe would not do: programs that a job has started may have it open.
        """
        answers: list[ChildAnswer[J]] = []
        try:
            while data := os.read(self.results, _READ):
                answers += self._answers(data)
        except BlockingIOError:
            pass
        return answers

    def _answers(self, data: bytes) -> list[ChildAnswer[J]]:
        if self._unread:
            self._unread += data
            if len(self._unread) < self._needed:
                return []
            data = bytes(self._unread)
            self._unread.clear()
        answers, position, size = [], 0, ANSWER_HEAD.size
        self._needed = size
        while len(data) >= position + size:
            number, kind, seconds, length = ANSWER_HEAD.unpack_from(data, position)
            end = position + size + length
            if len(data) < end:
                self._needed = end - position
                break
            answers.append(self._answer(number, kind, seconds, data[position + size : end]))
            position = end
        self._unread += data[position:]
        return answers

    def _answer(self, number: int, kind: int, seconds: float, body: bytes) -> ChildAnswer[J]:
        if kind >= Kind.DONE:
            job, size = self._held.pop(number)
            self._bytes -= size
            return ChildAnswer(job, Kind(kind), seconds, body)
        return ChildAnswer(self._held[number][0] if number else None, Kind(kind), seconds, body)

    def victim(self) -> J | None:
        """Return the job that a dead child had begun, after all else was read and taken back."""
        return self.first


class WorkerGone(Exception):
    """The worker has ended, so that there is nobody to work for."""


class ChildTokens:
    """The child's ends: it waits for jobs, one after the other, and answers each.

    Args:
        ends: The descriptors that it has inherited.
    """

    def __init__(self, ends: ChildEnds) -> None:
        self._tokens = close_in_forks(socket.socket(fileno=ends.tokens))
        close_in_forks(self, lambda tokens: [ends.jobs, ends.results, ends.life])  # of forks that a job makes
        self._jobs = ends.jobs
        self._results = ends.results
        self._unread = b""
        self._position = 0  # in that

    def close(self) -> None:
        """Close the end of the tokens; the process's end closes the others."""
        self._tokens.close()

    def receive_set_up(self) -> bytes:
        """Return the first frame."""
        return self._job(0)

    def receive(self) -> tuple[int, bytes] | None:
        """Wait for a job; return its number and bytes, None when the worker wants no more of this child."""
        token = self._tokens.recv(TOKEN.size)
        if not token:
            return None
        (number,) = TOKEN.unpack(token)
        return number, self._job(number)

    def answer(self, number: int, kind: Kind, body: bytes, seconds: float = 0.0) -> None:
        """Write an answer whole."""
        unwritten = memoryview(ANSWER_HEAD.pack(number, kind, seconds, len(body)) + body)
        while unwritten:
            unwritten = unwritten[os.write(self._results, unwritten) :]

    def _job(self, number: int) -> bytes:
        """Return the bytes of a job, and drop those before it, whose tokens were taken back."""
        while True:
            found, length = JOB_HEAD.unpack(self._read(JOB_HEAD.size))
            body = self._read(length)
            if found == number:
                return body

    def _read(self, size: int) -> bytes:
        if len(self._unread) - self._position < size:
            self._fill(size)
        position = self._position
        self._position = position + size
        return self._unread[position : position + size]

    def _fill(self, size: int) -> None:
        """Read until so many bytes are there."""
        pieces = [self._unread[self._position :]]
        found = len(pieces[0])
        while found < size:
            piece = os.read(self._jobs, max(MOST_BYTES, size - found))
            if not piece:
                raise WorkerGone("the worker has gone")
            pieces.append(piece)
            found += len(piece)
        self._unread, self._position = b"".join(pieces), 0


def end_with(life: int) -> None:
    """Have the kernel end this process as soon as the other end of a pipe is closed, whatever it is doing.

    SIGIO, whose default action is to end the process, needs no thread, and no interpreter that could take a signal: a
    job in C code that holds the interpreter's lock ends too. ``PR_SET_PDEATHSIG`` would follow the thread that has
    started this process, and Trio's threads end when they have nothing to do.
    """
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    try:
        os.read(life, 1)
    except BlockingIOError:
        return
    raise WorkerGone("the worker has gone")  # before its end was watched
