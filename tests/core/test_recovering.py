"""What a store gives back while a domain is being started."""

from triomq.core import Directory, Persistence, QueueOptions, recover
from triomq.core.persistence.records import encode_key, encode_options
from triomq.store import DelayedFound, Journal, QueueFound, Recovered, RecoveredQueue


def test_delayed_messages_may_be_read_before_their_queue_runs() -> None:
    found = QueueFound(1, encode_key("default", "q"), encode_options(QueueOptions()), 1)
    delayed = DelayedFound(queue=1, number=1, due=0.0, count=1, size=1)
    journal = Journal()
    journal.recovered = Recovered(queues={1: RecoveredQueue(found, delayed=[delayed])})
    recover(Directory("default", persistence=Persistence(journal)))
    for fetch in journal.take_fetches(again=False):  # whoever asks later has nothing to fear
        journal.fetched(fetch.request.number, [None])
