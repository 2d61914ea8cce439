"""What is sent for one call: where to, the payload, and all that the broker is to know of it.

    options of the decorator ─┐
    f.using(…)               ─┼─ OrderForm.fill(args, kwargs) ──> JobOrder ──> REQUEST
    the job that runs here   ─┘

Most calls of a job differ in their payloads alone, so everything else is made once, with its form.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Annotated

import msgspec

from triomq.checked import Checked
from triomq.errors import ConfigError, JobExpired
from triomq.jobs.definition import JobDefinition
from triomq.jobs.options import Priority, Seconds, in_milliseconds
from triomq.jobs.running import find_current_job
from triomq.protocols.emqp import Extension, Headers, make_headers
from triomq.timetable import unix_time

_LONGEST_TEXT = 255
"""Characters of a key on the wire."""


class CallOptions(Checked, frozen=True, kw_only=True):
    """What ``using`` changes for the calls that are made with it; None leaves it as the decorator has it.

    Args:
        delay: Seconds before it may begin.
        at: When it may begin, with a time zone; in place of ``delay``.
        deadline: Seconds by which it has to be done; if it has not begun by then it never will.
        queue: Where it waits.
        priority: From 0 to 9.
        retries: How often it is tried again.
        timeout: Seconds that one attempt may take; 0 is without limit.
        unique: As in ``JobOptions``.
        key: What its limits are about, as it is: nothing is filled in.
        keep: Seconds for which its result stays with the broker.
        trace: A traceparent; that of the job that runs here if empty.
        detached: Whether a job that is sent by another one is no child of that: it goes on when that fails.
        tied: Whether it is cancelled when its sender goes, or is lost.
    """

    delay: Seconds = 0.0
    at: datetime | None = None
    deadline: Seconds | None = None
    queue: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None
    priority: Priority | None = None
    retries: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None
    timeout: Seconds | None = None
    unique: bool | str | None = None
    key: Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)] | None = None
    keep: Seconds | None = None
    trace: Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)] = ""
    detached: bool = False
    tied: bool = False

    def __post_init__(self) -> None:
        """Check what the annotations cannot say."""
        Checked.__post_init__(self)
        for name in ("delay", "deadline", "timeout", "keep"):
            in_milliseconds(name, getattr(self, name) or 0.0)
        if self.at is not None and self.delay:
            raise ConfigError("delay and at: found both; they are two ways to say the same")
        if self.at is not None and self.at.tzinfo is None:
            raise ConfigError(f"at: found {self.at}, which has no time zone; write datetime.now(UTC) + …")


class JobOrder(msgspec.Struct, frozen=True):
    """One call on its way to a broker.

    Args:
        definition: What is called.
        queue: Where it waits.
        payload: The call.
        headers: What released brokers and workers understand, too.
        extension: What else the broker is to know.
        seconds_left: Until it has to be done; infinite without a deadline.
    """

    definition: JobDefinition
    queue: str
    payload: bytes
    headers: Headers
    extension: Extension
    seconds_left: float = inf


class OrderForm:
    """How calls of one job are ordered, with one set of changes; made for each ``using``, and once without.

    Args:
        definition: What is called.
        options: What differs from the decorator.
    """

    def __init__(self, definition: JobDefinition, options: CallOptions) -> None:
        self.definition = definition
        self.options = options
        own = definition.options
        self._queue = options.queue or own.queue
        retries = own.retries if options.retries is None else options.retries
        timeout = own.timeout if options.timeout is None else options.timeout
        self._headers = make_headers(reply_requested=True, guarantee=True, retry_count=retries, timeout=timeout)
        self._unique = own.unique if options.unique is None else options.unique
        keep = own.keep if options.keep is None else options.keep
        priority = own.priority if options.priority is None else options.priority
        first, most = own.backoff
        has_key = bool(own.key or options.key)
        self._has_key = has_key or bool(own.max_concurrency or own.rate)
        self._extension = Extension(
            priority=priority or None,
            delay=in_milliseconds("delay", options.delay),
            backoff=(in_milliseconds("backoff", first), in_milliseconds("backoff", most)) if retries else None,
            limit=own.max_concurrency or int(has_key and not own.rate),  # a key alone is for one at a time
            timeout=in_milliseconds("timeout", timeout),
            rate=own.rate,
            shared=own.shared,
            keep=in_milliseconds("keep", keep),
            trace=options.trace,
            stream=definition.is_stream,
            tie=options.tied,
        )

    def fill(self, args: Sequence[object], kwargs: Mapping[str, object]) -> JobOrder:
        """Return the order for one call; call it where the caller is, since the job that runs there counts.

        Raises:
            WrongArguments: The function does not take them.
            JobExpired: The deadline of the job that runs here has passed.
        """
        payload = self.definition.encode(args, kwargs)
        extension = self._extension
        if self._has_key or self._unique or self.options.at is not None:
            extension = self._individual(args, kwargs)
        seconds_left = inf if self.options.deadline is None else self.options.deadline
        parent = find_current_job()
        if parent is not None:
            extension = msgspec.structs.replace(extension, trace=extension.trace or parent.trace)
            if not self.options.detached:
                extension = msgspec.structs.replace(extension, parent=(parent.id, parent.attempt))
                seconds_left = min(seconds_left, parent.seconds_for_children)
        if seconds_left <= 0:
            raise JobExpired("", self.definition.name, "", "its deadline had passed before it was sent")
        return JobOrder(self.definition, self._queue, payload, self._headers, extension, seconds_left)

    def _individual(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Extension:
        """Return what depends on the arguments, and on the time."""
        key, at = self.options.key, self.options.at
        return msgspec.structs.replace(
            self._extension,
            key=_bounded(self.definition.key_of(args, kwargs) if key is None else key),
            unique=_bounded(self.definition.unique_of(self._unique, args, kwargs)),
            delay=self._extension.delay if at is None else max(0, round((at.timestamp() - unix_time()) * 1000)),
        )


def _bounded(text: str) -> str:
    """Return a text as the wire takes it; of a longer one its beginning, and what tells it from others."""
    if len(text) <= _LONGEST_TEXT:
        return text
    import hashlib

    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return f"{text[: _LONGEST_TEXT - len(digest) - 1]}:{digest}"
