"""A queue as time passes: messages expire and become ready; the domain that keeps the time may crash."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from .books import Told
from .model import PLAIN, kind
from .queue_machine import QueueMachine

# Machines look at whole seconds, and deadlines lie between these: what comes first is never in doubt.
MORTAL = [*PLAIN, *(kind(expiration=seconds) for seconds in (0, 0.5, 2.5, 1e12)), kind(priority=2, expiration=2.5)]
DELAYS = st.sampled_from([0.5, 1.5, 3.5])


class PassingMachine(QueueMachine):
    """A queue whose messages may say themselves when they expire."""

    kinds = MORTAL

    @rule(seconds=st.sampled_from([1, 1, 2, 5]))
    def pass_time(self, seconds: int) -> None:
        self.still.pass_time(seconds)
        self.catch_up()
        self.after()

    def catch_up(self) -> None:
        """Enter what has happened to messages that are not in the queue, since the time was another."""

    @rule()
    def crash_domain(self) -> None:
        """Crash the domain; its queues are there again, and so are their deadlines."""
        self.put_all_back()
        self.still.crash_domain()
        self.after()


class TimeMachine(PassingMachine):
    """A queue in which any message may be put off as well."""

    def __init__(self) -> None:
        super().__init__()
        self.put_off: list[tuple[float, Told]] = []

    @rule(data=st.data(), delay=DELAYS)
    def publish_later(self, data: st.DataObject, delay: float) -> None:
        runs = self.draw_runs(data)
        told = self.turn(lambda: self.tell_runs(runs, delay=delay))
        for one in told:
            assert not one.receipt.missing, "what is put off is placed"
            assert not one.receipt.refusals
            self.put_off.append((self.still.now + delay, one))
            self.placed += len(one.publish.contents)
            self.delayed += len(one.publish.contents)

    def catch_up(self) -> None:
        """Enter what has become ready: by time, then by arrival."""
        now = self.still.now
        for _, told in sorted((entry for entry in self.put_off if entry[0] <= now), key=lambda entry: entry[0]):
            for content in told.publish.contents:
                self.place(told.kind, content)
            self.delayed -= len(told.publish.contents)
        self.put_off = [entry for entry in self.put_off if entry[0] > now]

    def forget_delayed(self) -> int:
        count, self.delayed = self.delayed, 0
        self.put_off.clear()
        return count
