"""The queues of INFORM, in all the ways in which they have been written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.emqp import DEFAULT_QUEUE, WeightedQueue
from triomq.protocols.emqp.codes import PeerError
from triomq.protocols.emqp.queues import MOST, encode_queues, parse_queues

EMAIL, OTHER = WeightedQueue(40, "email"), WeightedQueue(10, "other")


@pytest.mark.parametrize(
    ("frame", "queues"),
    [
        ('[[40, "email"], [10, "other"]]', (EMAIL, OTHER)),  # the released worker
        ("[40, 'email']", (EMAIL,)),  # the specification's example
        ("[40, ‘email’]", (EMAIL,)),  # as it is printed there
        ('[40, "email"]', (EMAIL,)),
        ('[40, "email"],[10, "other"]', (EMAIL, OTHER)),  # its text: arrays with commas between them
        ('(40, "email"), (10, "other")', (EMAIL, OTHER)),
        ("[(40, 'email'), (10, 'other')]", (EMAIL, OTHER)),
        ("40, 'email'", (EMAIL,)),
        ('["email", "other"]', (WeightedQueue(10, "email"), OTHER)),
        ("email, other", (WeightedQueue(10, "email"), OTHER)),
        ("email", (WeightedQueue(10, "email"),)),
        ('[[40, "email"], "other"]', (EMAIL, OTHER)),
        ('[[1, "email"], [40, "email"]]', (EMAIL,)),  # the last of one name counts
        ('[[10, "bob\'s"]]', (WeightedQueue(10, "bob's"),)),
        ('[[-5, "late"]]', (WeightedQueue(-5, "late"),)),
        ("", (DEFAULT_QUEUE,)),
        ("  ", (DEFAULT_QUEUE,)),
        ("[]", (DEFAULT_QUEUE,)),
        (",", (DEFAULT_QUEUE,)),
    ],
)
def test_queues_are_read_however_they_are_written(frame: str, queues: tuple[WeightedQueue, ...]) -> None:
    assert parse_queues(frame.encode()) == queues


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff",
        b"[[10]]",
        b'[["email", 10]]',
        b'[[10, "email", 1]]',
        b"[[10, 20]]",
        b'[[1.5, "email"]]',
        b'[[true, "email"]]',
        b'[[10, ""]]',
        b'[[99999999999, "email"]]',
        b"[[[]]]",
        b"[" * 100_000,
        b'{"email": 10}',
        b"[40, email",
        b'[[10, "' + b"x" * 256 + b'"]]',
        b",".join(b"q%d" % number for number in range(MOST + 1)),
        b"x" * 300_000,
    ],
)
def test_queues_that_nobody_writes_are_refused(frame: bytes) -> None:
    with pytest.raises(PeerError) as refused:
        parse_queues(frame)
    assert len(refused.value.text) < 400


@given(
    st.lists(
        st.builds(WeightedQueue, st.integers(-(2**31) + 1, 2**31 - 1), st.text(min_size=1, max_size=40)),
        max_size=9,
        unique_by=lambda queue: queue.name,
    ).map(tuple)
)
def test_queues_come_back_as_they_were(queues: tuple[WeightedQueue, ...]) -> None:
    try:
        frame = encode_queues(queues)
    except UnicodeEncodeError:
        return
    assert parse_queues(frame) == (queues or (DEFAULT_QUEUE,))


def test_queues_are_written_as_the_released_worker_writes_them() -> None:
    assert encode_queues((DEFAULT_QUEUE, EMAIL)) == b'[[10, "default"], [40, "email"]]'
    assert encode_queues(()) == b""
