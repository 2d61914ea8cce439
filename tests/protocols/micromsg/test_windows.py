"""Windows: room, acks of all up to a number, jumps, and the end of sequence numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.micromsg.windows import UNLIMITED, ReceivingWindow, SendingWindow, sequence_of


def receiving(size: int = 10, *, exact: bool = False) -> ReceivingWindow:
    return ReceivingWindow(size, size, is_exact=exact)


def test_sequence_numbers_end_at_65535_and_begin_at_1() -> None:
    assert [sequence_of(number) for number in (1, 2, 65534, 65535, 65536, 65537)] == [1, 2, 65534, 65535, 1, 2]


def test_sender_has_room_for_a_window() -> None:
    window = SendingWindow(3)
    window.took(2)
    assert (window.room, window.sent) == (1, 2)
    assert window.acknowledge(2) == 2
    assert window.room == 3


def test_sender_without_acks_has_all_room() -> None:
    window = SendingWindow(0)
    window.took(1000)
    assert window.room == UNLIMITED


def test_ack_means_all_messages_up_to_its_number_across_the_end_of_numbers() -> None:
    # The specification's example: 65534, 65535, 1, 2 and 3 are out, and 3 is acknowledged.
    window = SendingWindow(10)
    for _ in range(65533):
        window.took(1)
        window.acknowledge(sequence_of(window.sent))
    window.took(5)
    assert window.acknowledge(3) == 5
    assert (window.acknowledged, window.room) == (65538, 10)


@pytest.mark.parametrize("sequence", [0, 1, 4, 65535])
def test_ack_of_what_is_not_outstanding_changes_nothing(sequence: int) -> None:
    window = SendingWindow(5)
    window.took(3)
    assert window.acknowledge(1) == 1
    assert window.acknowledge(sequence) == 0
    assert (window.room, window.acknowledged) == (3, 1)


def test_ack_is_due_at_half_a_window() -> None:
    window = receiving(10)
    window.took(6)
    window.accept(4, ())
    assert not window.is_due
    window.accept(5, ())
    assert window.is_due
    assert window.acknowledge() == 5
    assert not window.is_due


def test_exact_ack_is_due_at_a_whole_window() -> None:
    window = receiving(10, exact=True)
    window.took(10)
    window.accept(9, ())
    assert not window.is_due
    window.accept(10, ())
    assert window.is_due


def test_messages_are_acknowledged_up_to_the_last_of_an_unbroken_row() -> None:
    window = receiving(10)
    window.took(8)
    window.accept(1, (5, 3))
    assert window.safe == 1
    window.accept(0, (2,))
    assert window.safe == 3
    window.accept(4, ())
    assert window.safe == 5
    window.accept(0, (99, 7, 0))
    assert window.safe == 5
    window.accept(99, ())
    assert window.safe == 8


@given(st.permutations(range(1, 30)), st.integers(1, 5))
def test_messages_may_be_safe_in_any_order(order: list[int], step: int) -> None:
    window = receiving(30)
    window.took(29)
    done: set[int] = set()
    for start in range(0, len(order), step):
        window.accept(0, order[start : start + step])
        done.update(order[start : start + step])
        expected = next(number for number in range(1, 31) if number not in done) - 1
        assert window.safe == expected


def test_receiver_knows_repetitions_of_the_last_window() -> None:
    window = receiving(4)
    window.took(2)
    assert [window.repeats(sequence) for sequence in (1, 2, 4, 65535)] == [True, True, False, False]
    window.took(6)
    assert [window.repeats(sequence) for sequence in (4, 5, 8, 10)] == [False, True, True, False]
    assert not receiving(0).repeats(1)


def test_jump_is_followed_and_acks_before_it_have_the_old_numbers() -> None:
    window = receiving(100)
    window.took(3)
    window.jump_to(1000)
    assert window.next == 1000
    window.took(2)
    window.jump_to(1)
    window.took(2)
    found = []
    for number in range(1, 8):
        window.accept(number, ())
        found.append(window.acknowledge())
    assert found == [1, 2, 3, 1000, 1001, 1, 2]
    assert window.next == 3


def test_receiver_counts_the_room_of_its_peer() -> None:
    window = ReceivingWindow(5, 8, is_exact=False)
    window.took(6)
    assert window.room == 2
    window.accept(6, ())
    window.acknowledge()
    assert window.room == 8
    assert receiving(0).room == UNLIMITED


def test_wait_for_an_ack_begins_with_the_first_safe_message() -> None:
    window = receiving(100)
    window.took(3)
    assert window.waiting == 0
    window.accept(1, ())
    wait = window.waiting
    window.took(1)
    window.accept(2, ())
    assert window.waiting == wait != 0
    window.acknowledge()
    assert window.waiting == 0
    window.accept(3, ())
    assert window.waiting not in (0, wait)


def test_exact_wait_begins_with_the_last_message_and_when_all_are_safe() -> None:
    window = receiving(100, exact=True)
    window.took(3)
    window.accept(2, ())
    assert window.waiting == 0
    window.accept(3, ())
    wait = window.waiting
    window.took(1)
    assert window.waiting == 0
    window.accept(4, ())
    assert window.waiting not in (0, wait)
