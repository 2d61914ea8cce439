"""Send jobs to the workers of ``mail_jobs``; where a broker listens is the argument, or stands below."""

import sys

import trio
from mail_jobs import count_words, jobs, send_mail

BROKER = "emqp://127.0.0.1:47291"


async def main(broker: str) -> None:
    async with jobs.connect(broker):
        job = await send_mail.send("ada@example.org", subject="hello")
        print(job.id, await job.result())

        with trio.fail_after(5):
            print(await count_words.call("one two three"), "words")

        for mail in await send_mail.map([f"{name}@example.org" for name in ("eve", "joe", "zoe")], subject="news"):
            print(await mail.result())


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else BROKER)
