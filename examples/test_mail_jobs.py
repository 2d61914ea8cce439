"""Tests of ``mail_jobs``, in virtual time: waiting for a retry takes none."""

from mail_jobs import jobs as mail_jobs
from mail_jobs import send_mail

from triomq.app.testing import JobsInTest


async def test_mail_is_sent(jobs: JobsInTest) -> None:
    await jobs.work(mail_jobs)
    assert await send_mail.call("ada@example.org", subject="hi") == "sent 'hi' to ada@example.org"


async def test_mail_is_tried_again_when_the_server_is_slow(jobs: JobsInTest, autojump_clock: object) -> None:
    await jobs.work(mail_jobs)
    job = await send_mail.send("slow@example.org", subject="hi")
    await jobs.wait_idle()  # a second of backoff, in no time; raises what jobs have raised for good
    assert await job.result() == "sent 'hi' to slow@example.org"
