"""The records in which a broker describes its jobs, and those who do them; more of ``records``."""

import msgspec


class ServedQueue(msgspec.Struct, frozen=True, gc=False):
    """A queue from which a worker takes jobs.

    Args:
        name: Its name.
        weight: Of several workers that have room, those with the highest weight get its jobs.
    """

    name: str
    weight: int


class WorkerRecord(msgspec.Struct, frozen=True):
    """A client that takes jobs, one for each time that it says it is ready.

    Args:
        peer: Its address, as in its ``ConnectionRecord``.
        name: What it calls itself; empty if it has not said.
        user: As whom it has logged in.
        queues: From which it takes jobs; None where they are too many for an answer.
        free: Jobs that it has room for and has not got.
        out: Jobs that are with it.
        done: Jobs that it has done.
        silent: Seconds since something came from it.
        age: Seconds since it has connected.
    """

    peer: str
    name: str
    user: str
    queues: list[ServedQueue] | None
    free: int
    out: int
    done: int
    silent: float
    age: float


class ScheduleRecord(msgspec.Struct, frozen=True, gc=False):
    """Something that is to be done again and again.

    Args:
        key: What tells it from all others of its virtual host.
        call: What its jobs call.
        queue: Where they go.
        user: Who has set it.
        interval: Seconds between two of them; 0 where ``cron`` says when.
        cron: Minute, hour, day of the month, month, day of the week.
        timezone: In which the cron text is meant.
        due: Seconds until the next one; less than 0 when it is late, None when there is none any more.
        runs: How many there were.
        run_count: After how many it ends; 0 is never.
        owner: The program that has it in its code; empty for one that was set by hand.
    """

    key: str
    call: str
    queue: str
    user: str
    interval: float
    cron: str
    timezone: str
    due: float | None
    runs: int
    run_count: int
    owner: str = ""


class LiveJobRecord(msgspec.Struct, frozen=True, gc=False):
    """A job that has not ended.

    Args:
        id: Its id.
        name: What it calls, such as ``mail.send_mail``; empty if that cannot be said.
        queue: Where its message is.
        state: running, cancelling, parked (it waits for a place of its key), waiting or delayed.
        attempt: How often it was begun.
        user: Who has sent it; empty if that is not known.
        due: Seconds until it may begin.
    """

    id: str
    name: str
    queue: str
    state: str
    attempt: int
    user: str
    due: float = 0.0


class DeadJobRecord(msgspec.Struct, frozen=True, gc=False):
    """A job that has failed for good.

    Args:
        id: Its id.
        name: What it called.
        queue: Where it was.
        state: How it has ended: failed, timed-out or lost.
        attempts: How often it was begun.
        user: Who had sent it.
        type: The class of its error.
        message: The text of that.
        time: When it has ended, in Unix time.
        place: Where its dead letter is: whoever asks for the job by that finds it at once, however many there are.
    """

    id: str
    name: str
    queue: str
    state: str
    attempts: int
    user: str
    type: str
    message: str
    time: float
    place: int = 0


class JobDetails(msgspec.Struct, frozen=True):
    """All that is known of a job.

    Args:
        id: Its id.
        state: As of a ``LiveJobRecord``; or how it has ended: ok, failed, cancelled, timed-out, expired or lost.
        name: What it calls; empty, as all that follows, if only its end is known.
        queue: Where its message is.
        attempt: How often it was begun.
        user: Who has sent it.
        due: Seconds until it may begin.
        args: Its arguments; None if they are not known, or too long for an answer.
        kwargs: Its arguments with names; likewise.
        type: The class of its error, if it has failed for good.
        message: The text of that.
        traceback: Where that came from; empty also if it is too long for an answer.
        time: When it has failed for good, in Unix time.
    """

    id: str
    state: str
    name: str = ""
    queue: str = ""
    attempt: int = 0
    user: str = ""
    due: float = 0.0
    args: list[object] | None = None
    kwargs: dict[str, object] | None = None
    type: str = ""
    message: str = ""
    traceback: str = ""
    time: float | None = None


class CancelledJob(msgspec.Struct, frozen=True, gc=False):
    """That a job was cancelled.

    Args:
        has_ended: Whether it is over; otherwise its worker has been asked to end it.
    """

    has_ended: bool


class RequeuedJob(msgspec.Struct, frozen=True, gc=False):
    """That a job was sent again.

    Args:
        id: Its new id.
        dead_letters: The queue in which its dead letter still is.
    """

    id: str
    dead_letters: str


class JobTotals(msgspec.Struct, frozen=True):
    """How the jobs of a virtual host do.

    Args:
        running: How many are with workers.
        parked: How many wait for a place of their key.
        dead: How many dead letters there are.
        happened: How often what has happened since the broker was opened: how jobs have ended (ok, failed and so on);
            retried, requeued, late (an answer for an attempt that was over), duplicate.
    """

    running: int = 0
    parked: int = 0
    dead: int = 0
    happened: dict[str, int] = {}
