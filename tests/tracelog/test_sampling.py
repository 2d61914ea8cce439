"""Which messages of a queue are traced: one in so many by id, unless a flag in the message says otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Head, Stretch
from triomq.tracelog.sampling import JobSampling, QueueSampling

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-%s"


def message(flags: bytes) -> tuple[Head, bytes]:
    """Return a message whose header has the flags, as AMQP's table does; empty for none."""
    header = b"\x0btraceparentS\x00\x00\x00\x37" + PARENT % flags if flags else bytes(70)
    return Head(properties_stop=len(header), body_start=len(header)), header + b"body"


def stretch(*flags: bytes) -> Stretch:
    found = [message(each) for each in flags]
    heads = [head for head, _ in found]
    return Stretch(heads[0], [content for _, content in found], heads)


@given(st.integers(1, 1000), st.integers(0, 10_000), st.integers(0, 500))
def test_run_has_the_ids_that_its_messages_have_alone(stride: int, first: int, count: int) -> None:
    sampling, ids = QueueSampling(1 / stride), range(first, first + count)
    alone = [number for number in ids if sampling.choose([number])]
    assert list(sampling.choose(ids)) == list(sampling.choose(list(ids))) == alone
    assert all(number % stride == 0 for number in alone)


RATES = st.fractions(0, 1, max_denominator=1000).map(float)


@given(RATES, st.integers(0, 10_000), st.integers(0, 500))
def test_run_has_the_ids_that_its_messages_have_alone_at_any_rate(rate: float, first: int, count: int) -> None:
    sampling, ids = QueueSampling(rate), range(first, first + count)
    alone = [number for number in ids if sampling.choose([number])]
    assert list(sampling.choose(ids)) == list(sampling.choose(list(ids))) == alone
    assert alone == [number for number in ids if sampling.has(number)]


@pytest.mark.parametrize(("rate", "count"), [(0.7, 700), (0.3, 300), (2 / 3, 667), (0.015, 15), (0.999, 999)])
def test_rate_is_exact_also_where_it_is_no_whole_part(rate: float, count: int) -> None:
    assert len(QueueSampling(rate).choose(range(1000))) == count
    jobs = [number.to_bytes(4) for number in range(20_000)]
    assert len(JobSampling(rate).choose(jobs)) / 20_000 == pytest.approx(rate, abs=0.01)


@pytest.mark.parametrize(("rate", "chosen"), [(0, []), (0.5, [2, 4]), (1, [1, 2, 3, 4])])
def test_rate_is_the_part_that_is_traced(rate: float, chosen: list[int]) -> None:
    assert list(QueueSampling(rate).choose(range(1, 5))) == chosen


@pytest.mark.parametrize(("rate", "chosen"), [(0, [2]), (0.25, [2]), (1, [1, 2, 3])])
def test_flag_of_traceparent_wins(rate: float, chosen: list[int]) -> None:
    sampling = QueueSampling(rate)
    sampling.look(1, *stretch(b"", b"01", b"", b"00"))
    assert list(sampling.choose(range(1, 5))) == chosen


def test_flag_is_found_in_messages_of_one_head() -> None:
    sampling, found = QueueSampling(0), [message(b"01"), message(b"00"), message(b"03")]
    sampling.look(1, *Stretch(found[0][0], [content for _, content in found]))
    assert list(sampling.choose(range(1, 4))) == [1, 3]


def test_header_in_the_body_says_nothing() -> None:
    sampling = QueueSampling(0)
    sampling.look(1, *Stretch(Head(properties_stop=80, body_start=80), [bytes(80) + b"traceparent " + PARENT % b"01"]))
    assert not sampling.choose(range(1, 2))


@pytest.mark.parametrize("value", [b"traceparent", b"traceparent" + bytes(60), b"traceparent00-xyz-01" + bytes(60)])
def test_header_that_is_none_says_nothing(value: bytes) -> None:
    sampling = QueueSampling(0)
    sampling.look(1, *Stretch(Head(properties_stop=len(value), body_start=len(value)), [value]))
    assert not sampling.choose(range(1, 2))


def test_message_that_has_left_is_forgotten() -> None:
    sampling = QueueSampling(0)
    sampling.look(1, *stretch(b"01", b"01"))
    sampling.forget([1])
    assert list(sampling.choose(range(1, 3))) == [2]
    sampling.forget_all()
    assert not sampling.choose(range(1, 3))
