from triomq.jobs.worker.pool import Lane


def mixed() -> Lane:
    return Lane({"default": 10}, is_sync=True, is_async=True)


def test_lane_of_one_kind_has_the_room_of_its_places() -> None:
    assert Lane({"default": 10}, is_sync=True, is_async=False).room(4, 64) == 64
    assert Lane({"default": 10}, is_sync=False, is_async=True).room(4, 64) == 4
    assert Lane({"default": 10}, is_sync=True, is_async=False).room(4, -1) == 0


def test_lane_of_both_kinds_expects_as_many_of_each_at_first() -> None:
    assert mixed().room(4, 64) == 8
    assert mixed().room(100, 2) == 4


def test_lane_of_both_kinds_expects_what_came_last() -> None:
    lane = mixed()
    lane.count(0, 50)
    assert lane.room(4, 60) == 60
    lane.count(50, 0)
    assert lane.room(4, 60) == 4
    assert lane.room(100, 2) == 100


def test_lane_of_both_kinds_asks_for_nothing_while_one_has_no_room() -> None:
    lane = mixed()
    lane.count(0, 50)
    assert lane.room(0, 60) == 0
    assert lane.room(60, -1) == 0
