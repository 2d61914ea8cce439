"""How calls reach the connection with a broker, which lives in a Trio run: this one, or that of another thread.

    f.send() ─ JobOrder ─> JobLink.run(place) ──┬─ in Trio: awaited here
                                                └─ from asyncio, from plain threads: in the Trio run of a thread

What a call does there is written once, as functions of Trio below; the faces differ in ``run`` alone.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import Final, Protocol, TypeAlias, TypeVar

import trio

from triomq.clients import EMQPConnection, EMQPReply, EMQPRequest
from triomq.errors import AlreadyConnected, JobTimedOut, NoSuchJob, NotFound, ResultNotKept
from triomq.jobs.orders import JobOrder
from triomq.protocols.emqp import Extension, JobState

T = TypeVar("T")

_PATIENCE: Final = 1.0
"""Seconds that a cancelled caller waits for the broker to hear of it."""

Answer: TypeAlias = tuple[bytes, EMQPReply]
"""The id of a job, and its answer."""


class JobLink(Protocol):
    """The way to one connection; made by ``Jobs.connect`` and its relatives, ends with their blocks."""

    where: str
    """What it is connected with, for people."""
    connection: EMQPConnection

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call and await a function in the connection's Trio run."""
        ...

    def for_threads(self) -> "JobLink":
        """Return the way that blocks, for ``f.blocking``."""
        ...

    def raised(self, job: str) -> None:
        """Hear that the failure of a job is raised to its caller: tests raise what nobody got."""
        return  # without this it would be abstract


class TrioLink(JobLink):
    """The way to a connection of this Trio run.

    Args:
        where: What it is connected with.
        connection: The connection.
    """

    def __init__(self, where: str, connection: EMQPConnection) -> None:
        self.where = where
        self.connection = connection
        self._token = trio.lowlevel.current_trio_token()

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Await a function.

        Raises:
            AlreadyConnected: This is another Trio run, or none.
        """
        try:
            token = trio.lowlevel.current_trio_token()
        except RuntimeError:
            token = None
        if token is not self._token:
            raise AlreadyConnected(
                f"these jobs are connected with {self.where} in another event loop or thread, and can be sent from "
                "there alone; from a thread of that Trio program go back with trio.from_thread.run(f.send, …)"
            )
        return await function()

    def for_threads(self) -> JobLink:
        """Return the way that blocks, for threads of this Trio program."""
        return _FromThreadLink(self, self._token)


class _FromThreadLink(JobLink):
    """The way to a connection of a Trio run from threads beside it."""

    def __init__(self, link: TrioLink, token: trio.lowlevel.TrioToken) -> None:
        self.where = link.where
        self.connection = link.connection
        self._link = link
        self._token = token

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call a function, and block this thread until it is done.

        Raises:
            AlreadyConnected: This is a thread of Trio itself.
        """
        if trio.lowlevel.in_trio_run():
            raise AlreadyConnected("f.blocking would block this Trio program; write `await f.send(…)` here")
        return trio.from_thread.run(function, trio_token=self._token)

    def for_threads(self) -> JobLink:
        """Return this."""
        return self

    def raised(self, job: str) -> None:
        """Pass it on."""
        self._link.raised(job)


# What is done in the connection's Trio run


def _begin(connection: EMQPConnection, order: JobOrder, seconds_left: float = inf) -> EMQPRequest:
    """Send an order at the end of this turn; its deadline is the earlier one."""
    seconds = min(order.seconds_left, seconds_left)
    deadline = inf if seconds == inf else trio.current_time() + seconds
    return connection.begin(order.queue, order.payload, order.headers, order.extension, deadline=deadline)


async def place(connection: EMQPConnection, order: JobOrder) -> EMQPRequest:
    """Send an order, and wait until the broker has it."""
    await connection.wait_room()
    request = _begin(connection, order)
    connection.flush()
    await wait_placed(connection, [request])
    return request


async def place_all(connection: EMQPConnection, orders: Iterable[JobOrder]) -> list[EMQPRequest]:
    """Send orders one behind the other, when there is room."""
    await connection.wait_room()
    requests = [_begin(connection, order) for order in orders]
    connection.flush()
    return requests


async def wait_placed(connection: EMQPConnection, requests: Sequence[EMQPRequest]) -> None:
    """Wait until the broker has all of them; one without our extensions never says so."""
    if not connection.has_extensions:
        await connection.wait_room()
        return
    for request in requests:
        if not request.is_accepted:
            await request.accepted()


async def call(connection: EMQPConnection, order: JobOrder) -> Answer:
    """Send an order with the time that this task has left, and wait for the answer; cancelled, cancel the job.

    Raises:
        JobTimedOut: The deadline of the order has passed; that of a task raises what Trio raises.
    """
    await connection.wait_room()
    request = _begin(connection, order, trio.current_effective_deadline() - trio.current_time())
    connection.flush()
    with trio.move_on_after(order.seconds_left):
        try:
            if order.extension.unique:
                await wait_placed(connection, [request])
                if request.duplicate_of:
                    return request.duplicate_of, await follow(connection, request.duplicate_of)
            return request.id, await request.reply()
        except trio.Cancelled:
            if not request.duplicate_of:
                await cancel_now(connection, request.id)
            raise
    reason = f"not done within {order.seconds_left:g} s"
    raise JobTimedOut(request.id.decode(), order.definition.name, reason=reason)


async def cancel_now(connection: EMQPConnection, job: bytes) -> None:
    """Cancel a job and those that it has sent, although this task is cancelled."""
    with trio.move_on_after(_PATIENCE, shield=True):
        await cancel(connection, job)


async def cancel(connection: EMQPConnection, job: bytes, grace: float | None = None) -> bool:
    """Cancel a job and those that it has sent; return whether there was one.

    A broker without our extensions does not know how.
    """
    if not connection.has_extensions:
        return False
    try:
        await connection.cancel(job, grace=grace, tree=True)
    except NotFound:
        return False
    return True


async def follow(connection: EMQPConnection, job: bytes) -> EMQPReply:
    """Wait for the end of a job that another client has sent, and return what its sender was answered.

    Raises:
        NoSuchJob: There is none of that id.
        ResultNotKept: It has ended well, and its result went to its sender alone.
    """
    async with connection.follow([job], results=True) as reports:
        async for report in reports:
            found, message = report.state, report.result
    if found.state == "unknown":
        raise NoSuchJob(f"no job {job.decode()!r} here; it has ended and is forgotten, or there never was one")
    if found.state == "ok" and message is None:
        raise ResultNotKept(f"job {job.decode()!r} is done; its result went to its sender: give it keep=60")
    extension = Extension(state=found.state, type=found.type, message=found.message, traceback=found.traceback)
    return EMQPReply(message or b"", extension)


async def state_of(connection: EMQPConnection, job: bytes) -> JobState:
    """Ask what has become of a job."""
    return (await connection.states([job]))[job].state
