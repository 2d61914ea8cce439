from hypothesis import given
from hypothesis import strategies as st

from triomq.core.backlog.run import Run

from ..harness import HEAD


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(1, 12), st.integers(0, 40))
def test_as_many_fit_as_there_is_room_for_and_one_always(sizes: list[int], most: int, most_bytes: int) -> None:
    most = min(most, len(sizes))
    run = Run(HEAD, [b"x" * size for size in sizes], 1, sum(sizes), 0, float("inf"))
    fitting = run.fitting(most, most_bytes)
    assert 1 <= fitting <= most
    assert fitting == 1 or sum(sizes[:fitting]) <= most_bytes
    assert fitting == most or sum(sizes[: fitting + 1]) > most_bytes
