"""When and how to connect again."""

import random

from triomq.checked import Checked
from triomq.errors import ConfigError


class Reconnect(Checked, frozen=True, kw_only=True, gc=False):
    """What a connection does when it is lost; given to ``open_amqp``.

    Args:
        delay: Seconds before the first new try; each further one waits twice as long.
        max_delay: Seconds that it waits at most.
        jitter: Which part of the wait is left to chance, so that a thousand clients do not come back at one moment.
        attempts: How many tries in a row may fail before the connection is given up; None for any number.
        resend: Whether publishes that were not confirmed are sent again, so that a broker may have them twice; without
            it they raise ``Disconnected``, and it may have them or not.
    """

    delay: float = 0.1
    max_delay: float = 30.0
    jitter: float = 0.5
    attempts: int | None = None
    resend: bool = True

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        super().__post_init__()
        if not 0 <= self.delay <= self.max_delay:
            raise ConfigError(f"delay is {self.delay} s; it must be between 0 and max_delay, {self.max_delay} s")
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"jitter is {self.jitter}; it must be a part, from 0 to 1")
        if self.attempts is not None and self.attempts < 1:
            raise ConfigError(f"attempts is {self.attempts}; it must be 1 or more, or None for any number")

    def seconds(self, failures: int) -> float:
        """Say how long to wait after so many failures in a row, 0 for none yet."""
        wait = min(self.max_delay, self.delay * 2.0 ** min(failures, 64))
        return wait * (1 - self.jitter * random.random())
