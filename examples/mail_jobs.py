"""Functions that workers run: the module that both sides import.

``python mail_jobs.py`` has everything in one program: the broker, a worker, and the code that sends. For real, run
``triomq worker mail_jobs:jobs`` beside a broker, and connect with its URL.
"""

import trio

from triomq import open_broker
from triomq.jobs import Jobs, current_job

jobs = Jobs()


@jobs.job(queue="mail", retries=5, timeout=30)
async def send_mail(to: str, subject: str) -> str:
    """Send a mail; here it only takes some time."""
    await trio.sleep(0.01)
    if current_job().attempt == 1 and to.startswith("slow"):
        raise TimeoutError("the mail server does not answer")
    return f"sent {subject!r} to {to}"


@jobs.job(queue="mail", backoff=(0.05, 1.0))
def count_words(text: str) -> int:
    """Count words: a plain function, which workers run in a process of its own."""
    return len(text.split())


async def main() -> None:
    async with open_broker() as broker, jobs.connect(broker), jobs.work(broker):
        job = await send_mail.send("ada@example.org", subject="hello")  # back: the broker has it
        print(await job.result())

        with trio.fail_after(5):  # the deadline travels with the job; cancelling this cancels it
            print(await count_words.call("one two three"), "words")

        mails = await send_mail.map(["eve@example.org", "joe@example.org"], subject="news")
        print(*[await mail.result() for mail in mails], sep="\n")


if __name__ == "__main__":
    trio.run(main)
