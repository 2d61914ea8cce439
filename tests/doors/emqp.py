"""eMQP: REQUESTs to a queue, and a worker that says READY for them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import ceil
from typing import Any, ClassVar

from doors.basic import present
from doors.door import Consumed, Publish, Said, Taken, WayIn, WayOut
from doors.site import QUEUE, Site
from triomq.clients import EMQPJob, EMQPUrl, open_emqp, open_emqp_worker
from triomq.protocols.emqp import Extension, make_headers


def url_of(site: Site, *, extensions: bool = True) -> EMQPUrl:
    """Return where the broker is."""
    return EMQPUrl(host=site.host, port=site.ports["eMQP"], extensions=extensions)


class EMQPWayIn(WayIn):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Publish]:
        async with open_emqp(url_of(self.site)) as emqp:

            async def publish(bodies: Sequence[bytes], said: Said) -> None:
                headers = make_headers(guarantee=bool(said["persistent"]))
                extension = Extension(priority=said["priority"], deadline=_milliseconds(said))  # type: ignore[arg-type]
                requests = []
                for body in bodies:
                    await emqp.wait_room()
                    requests.append(emqp.begin(QUEUE, body, headers, extension))
                for request in requests:
                    await request.accepted()

            yield publish


def _milliseconds(said: Said) -> int:
    seconds = said["expiration"]
    assert isinstance(seconds, float)
    return int(seconds * 1000)


class EMQPWayOut(WayOut):
    extensions: ClassVar[bool] = True

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        url = url_of(self.site, extensions=self.extensions)
        async with open_emqp_worker(url, [QUEUE], slots=self.window) as worker:
            yield Consumed(worker, _taken)


class ReleasedWayOut(EMQPWayOut):
    """A worker as the released ones are, without our extensions."""

    extensions = False


def _taken(job: EMQPJob) -> Taken:
    return Taken(job.message, lambda: _said(job), job.reply, job.attempt > 1 if job.attempt else None)


def _said(job: EMQPJob) -> Said:
    extension = job.extension
    return present(
        {
            "routing key": job.queue,
            "message-id": job.id.decode(),
            "persistent": job.headers.guarantee,
            "priority": extension.priority,
            "expiration": None if extension.deadline is None else float(ceil(extension.deadline / 1000)),
        }
    )
