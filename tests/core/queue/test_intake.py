from itertools import pairwise
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Codecs, Head, Properties, QueueOptions, Stretch, encode_core, traits_of
from triomq.core.queue.intake import sort_out

CODECS = Codecs()


def content_of(expiration: float | None, priority: int | None) -> bytes:
    """Properties in a form of a fixed length, so that all messages share a head; the body is empty."""
    return encode_core(Properties(expiration=expiration, priority=priority, type="x"))


def test_queue_s_time_to_live_leaves_a_run_whole() -> None:
    (part,) = sort_out(Stretch(Head(), [b"a", b"b"]), 2, QueueOptions(message_ttl=1.5), CODECS, 10.0)
    assert (part.contents, part.size, part.deadline, part.level) == ([b"a", b"b"], 2, 11.5, 0)


def test_messages_that_arrive_within_a_hundredth_of_a_second_share_a_deadline() -> None:
    options, stretch = QueueOptions(message_ttl=1.0), Stretch(Head(), [b"a"])
    deadlines = {sort_out(stretch, 1, options, CODECS, now)[0].deadline for now in (10.001, 10.004, 10.009)}
    assert deadlines == {11.01}


def test_ttl_of_zero_is_over_now() -> None:
    (part,) = sort_out(Stretch(Head(), [b"a"]), 1, QueueOptions(message_ttl=0), CODECS, 10.001)
    assert part.deadline == 10.001


def test_priorities_that_the_queue_does_not_know_are_not_looked_at() -> None:
    head = Head(traits=traits_of(codec=99, has_priority=True))  # nobody could decode it
    (part,) = sort_out(Stretch(head, [b"a"]), 1, QueueOptions(message_ttl=1.0), CODECS, 0.0)
    assert part.level == 0


@pytest.mark.parametrize("forever", [inf, nan, 1e300])
def test_expiration_beyond_all_measure_never_comes(forever: float) -> None:
    content = encode_core(Properties(expiration=forever))
    head = Head(properties_stop=len(content), body_start=len(content), traits=traits_of(has_expiration=True))
    (part,) = sort_out(Stretch(head, [content]), len(content), QueueOptions(), CODECS, 0.0)
    assert part.deadline == inf


@given(
    st.lists(st.tuples(st.sampled_from([None, 1.0, 2.0]), st.sampled_from([None, 0, 1, 9])), min_size=1, max_size=20),
    st.sampled_from([None, 1.5]),
    st.integers(0, 3),
)
def test_parts_are_the_run_in_order_cut_where_deadline_or_level_change(
    messages: list[tuple[float | None, int | None]], message_ttl: float | None, max_priority: int
) -> None:
    contents = [content_of(*message) for message in messages]
    longest = max(map(len, contents))
    options = QueueOptions(message_ttl=message_ttl, max_priority=max_priority)
    parts = []
    for content in contents:  # one head for each length, as an endpoint would make
        head = Head(
            properties_stop=len(content),
            body_start=len(content),
            traits=traits_of(has_expiration=True, has_priority=True),
        )
        parts += sort_out(Stretch(head, [content]), len(content), options, CODECS, 0.0)
    assert [part.contents for part in parts] == [[content] for content in contents]
    for (expiration, priority), part in zip(messages, parts, strict=True):
        times = [time for time in (expiration, message_ttl) if time is not None]
        assert part.deadline == (min(times) if times else inf)
        assert part.level == min(priority or 0, max_priority)
    equal = [content for content in contents if len(content) == longest]
    head = Head(properties_stop=longest, body_start=longest, traits=traits_of(has_expiration=True, has_priority=True))
    together = sort_out(Stretch(head, equal), longest * len(equal), options, CODECS, 0.0)
    assert [content for part in together for content in part.contents] == equal
    assert all((one.deadline, one.level) != (other.deadline, other.level) for one, other in pairwise(together))


def test_message_whose_properties_nobody_can_read_is_as_one_without() -> None:
    head = Head(properties_stop=2, traits=traits_of(has_priority=True, has_expiration=True))
    (part,) = sort_out(Stretch(head, [b"\xff\xff"]), 2, QueueOptions(max_priority=3, message_ttl=1.0), CODECS, 0.0)
    assert (part.deadline, part.level) == (1.0, 0)


def test_priority_below_the_lowest_counts_as_the_lowest() -> None:
    content = content_of(None, -4)
    head = Head(properties_stop=len(content), traits=traits_of(has_priority=True))
    (part,) = sort_out(Stretch(head, [content]), 0, QueueOptions(max_priority=3), CODECS, 0.0)
    assert part.level == 0
