"""Each delivery is settled once at the broker, and as it was meant, in whatever order that is done here."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from triomq.clients.amqp.acks import Acks
from triomq.protocols.amqp import BasicAck, BasicNack, Method


class Channel:
    """What a broker makes of acks: it knows which tags are outstanding, and an unknown one is an error (406)."""

    def __init__(self) -> None:
        self.outstanding: list[int] = []
        self.outcomes: dict[int, str] = {}
        self.words: Counter[str] = Counter()

    def deliver(self, count: int) -> list[int]:
        first = len(self.outcomes) + len(self.outstanding) + 1
        tags = list(range(first, first + count))
        self.outstanding += tags
        return tags

    def send(self, number: int, method: Method) -> None:
        assert number == 1
        assert isinstance(method, BasicAck | BasicNack)
        assert method.delivery_tag in self.outstanding, "unknown delivery tag"
        outcome = "accept" if isinstance(method, BasicAck) else "requeue" if method.requeue else "reject"
        self.words[outcome] += 1
        tag = method.delivery_tag
        settled = [one for one in self.outstanding if one <= tag] if method.multiple else [tag]
        for one in settled:
            self.outstanding.remove(one)
            self.outcomes[one] = outcome

    def settle_soon(self, acks: Acks) -> None:
        pass  # the test says when


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["accept", "reject", "requeue"]), st.integers(0, 30)),
        st.tuples(st.sampled_from(["accept all", "reject all", "requeue all"]), st.integers(0, 30)),
        st.tuples(st.just("flush"), st.just(0)),
    )
)


@given(STEPS)
def test_each_delivery_is_settled_once_and_as_it_was_meant(steps: list[tuple[str, int]]) -> None:
    channel = Channel()
    acks = Acks(channel, 1)  # type: ignore[arg-type]  # all that it uses of a link
    meant: dict[int, str] = {}
    here: list[int] = []
    for word, number in steps:
        if word == "deliver":
            tags = channel.deliver(number)
            here += tags
            acks.received(tags)
        elif word == "flush":
            acks.flush()
        elif here:
            tag, (outcome, _, multiple) = here[number % len(here)], word.partition(" ")
            if tag in meant:
                continue  # a delivery knows that it is settled
            for one in [one for one in here if one <= tag] if multiple else [tag]:
                meant.setdefault(one, outcome)
            if outcome == "accept" and multiple:
                acks.accept_all(tag)
            elif outcome == "accept":
                if tag > acks.floor:
                    acks.accepted.add(tag)
                    acks.announce()
            else:
                acks.refuse(tag, requeue=outcome == "requeue", multiple=bool(multiple))
        assert len(acks) == len(here) - len(meant)
    acks.flush()
    assert channel.outcomes == meant
    assert channel.outstanding == [tag for tag in here if tag not in meant]
    acks.give_back(here)
    assert not channel.outstanding
    assert len(acks) == 0


def test_hundred_in_order_are_one_ack() -> None:
    channel = Channel()
    acks = Acks(channel, 1)  # type: ignore[arg-type]
    acks.received(channel.deliver(100))
    for tag in (3, 1, 2, *range(4, 100)):
        acks.accepted.add(tag)
        acks.announce()
    acks.flush()
    assert channel.words == {"accept": 1}
    assert channel.outstanding == [100]


def test_settling_after_the_end_is_dropped() -> None:
    channel = Channel()
    acks = Acks(channel, 1)  # type: ignore[arg-type]
    acks.received(channel.deliver(3))
    acks.close()
    acks.announce()
    acks.refuse(1, requeue=True, multiple=False)
    acks.give_back([2])
    acks.flush()
    assert not channel.words
