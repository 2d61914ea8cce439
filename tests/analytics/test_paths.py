"""The path of one message or job, out of a trace log."""

from datetime import timedelta
from pathlib import Path

import pytest

from triomq.analytics import FoundPaths, find_paths
from triomq.analytics.paths import MOST_EVENTS, MOST_SHARED, MOST_STAYS
from triomq.errors import TraceLogError

from .made_log import BEGAN, NOON, Event, dead_letter, event, job_of_three_tries, lost_peer, normal_message, write_log

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


def names(found: FoundPaths) -> list[list[str]]:
    return [[stay.name for stay in path.stays] for path in found.paths]


def message(at: float, queue: str, number: int, **columns: object) -> Event:
    return event(at, "queued", queue, number, **columns)


@pytest.mark.parametrize("wanted", ["bad", "orders/1", "retry/41", "failed/91"])
def test_message_is_followed_from_queue_to_queue_in_both_directions(tmp_path: Path, wanted: str) -> None:
    write_log(tmp_path, [*dead_letter(), *normal_message(msg_id=2)])
    found = find_paths(tmp_path, wanted)
    assert names(found) == [["orders/1", "retry/41", "failed/91"]]
    (path,) = found.paths
    assert [stay.outcome for stay in path.stays] == ["rejected", "expired", "accepted"]
    assert (path.began, path.ended) == (NOON, NOON + timedelta(seconds=21))


def test_moves_are_found_where_they_have_no_ids(tmp_path: Path) -> None:
    moved = message(2, "later", 7, from_queue="orders", from_id=1)
    write_log(tmp_path, [message(0, "orders", 1), event(1, "expired", "orders", 1), moved])
    assert names(find_paths(tmp_path, "later/7")) == [["orders/1", "later/7"]]


def test_reply_is_found_by_what_it_answers(tmp_path: Path) -> None:
    asked = message(0, "questions", 1, message_id="m", correlation_id="c")
    events = [asked, message(1, "answers", 5, correlation_id="c"), message(2, "other", 9, correlation_id="d")]
    events.append(message(3, "late-answers", 6, correlation_id="m"))
    write_log(tmp_path, events)
    for wanted in ("m", "c", "answers/5", "late-answers/6"):
        assert names(find_paths(tmp_path, wanted)) == [["questions/1", "answers/5", "late-answers/6"]]


def test_copies_of_one_publish_are_one_path(tmp_path: Path) -> None:
    write_log(tmp_path, [message(0.01 * number, f"q{number}", 1, message_id="m", session=3) for number in range(3)])
    assert names(find_paths(tmp_path, "m")) == [["q0/1", "q1/1", "q2/1"]]


def test_messages_with_one_id_that_nothing_links_are_several_paths(tmp_path: Path) -> None:
    write_log(tmp_path, [message(0, "a", 1, message_id="1", session=3), message(60, "a", 2, message_id="1", session=3)])
    assert names(find_paths(tmp_path, "1")) == [["a/1"], ["a/2"]]
    assert names(find_paths(tmp_path, "a/2")) == [["a/2"]]


def test_number_that_a_queue_uses_again_is_another_message(tmp_path: Path) -> None:
    write_log(tmp_path, lost_peer(), began=BEGAN)
    write_log(tmp_path, lost_peer(100), began=BEGAN + 1, node="one")
    found = find_paths(tmp_path, "orders/2")
    assert names(found) == [["orders/2"], ["orders/2"]]
    assert [len(path.stays[0].events) for path in found.paths] == [5, 5]
    later = find_paths(tmp_path, "orders/2", since=NOON + timedelta(seconds=50))
    assert [path.began for path in later.paths] == [NOON + timedelta(seconds=100)]
    earlier = find_paths(tmp_path, "orders/2", until=NOON + timedelta(seconds=50))
    assert [path.began for path in earlier.paths] == [NOON]


def test_dead_letters_of_a_number_that_was_used_again_go_with_their_own_message(tmp_path: Path) -> None:
    write_log(tmp_path, [*dead_letter(), *dead_letter(100)])
    assert names(find_paths(tmp_path, "orders/1")) == [["orders/1", "retry/41", "failed/91"]] * 2


def test_queues_of_two_brokers_with_one_name_are_two(tmp_path: Path) -> None:
    for node in ("one", "two"):
        write_log(tmp_path, dead_letter(), node=node)
    found = find_paths(tmp_path, "retry/41")
    assert [{event.node for stay in path.stays for event in stay.events} for path in found.paths] == [{"one"}, {"two"}]


def test_job_is_found_with_the_messages_that_carry_it(tmp_path: Path) -> None:
    carrier = [message(-0.5, "mail", 3, message_id="j1"), event(0.5, "delivered", "mail", 3)]
    write_log(tmp_path, [*carrier, *job_of_three_tries(), *job_of_three_tries(50, "j2")])
    for wanted in ("j1", "mail/3"):
        (path,) = find_paths(tmp_path, wanted).paths
        assert [stay.name for stay in path.stays] == ["mail/3", "mail.send (j1)"]
    job = path.stays[1]
    assert (job.is_job, job.outcome, len(job.spans())) == (True, "finished", 6)


@pytest.mark.parametrize("wanted", [TRACE_ID, f"00-{TRACE_ID}-00f067aa0ba902b7-01"])
def test_messages_of_one_trace_are_one_path(tmp_path: Path, wanted: str) -> None:
    parents = [f"00-{TRACE_ID}-00f067aa0ba902b{number}-01" for number in range(2)]
    events = [message(number, "q", number, traceparent=parent) for number, parent in enumerate(parents)]
    write_log(tmp_path, [*events, message(5, "q", 5, traceparent=f"00-{'1' * 32}-00f067aa0ba902b7-01")])
    assert names(find_paths(tmp_path, wanted)) == [["q/0", "q/1"]]


def test_queue_may_be_named_with_its_domain_and_have_a_slash(tmp_path: Path) -> None:
    write_log(tmp_path, [message(0, "a/b", 1), message(0, "a/b", 1) | {"domain": "shop"}])
    assert names(find_paths(tmp_path, "a/b/1")) == [["a/b/1"], ["a/b/1"]]
    (path,) = find_paths(tmp_path, "shop: a/b/1").paths
    assert path.stays[0].events[0].domain == "shop"


def test_id_that_too_many_messages_have_links_nothing(tmp_path: Path) -> None:
    events = [message(number, "q", number, correlation_id="same") for number in range(MOST_SHARED + 1)]
    write_log(tmp_path, [*events, message(0, "q", 1000, message_id="m", correlation_id="same")])
    (path,) = find_paths(tmp_path, "m").paths
    assert [stay.name for stay in path.stays] == ["q/1000"]
    assert path.not_followed == ["same"]
    assert len(find_paths(tmp_path, "same").paths) == MOST_SHARED + 2


def test_search_is_bounded_by_messages_and_by_events(tmp_path: Path) -> None:
    write_log(tmp_path / "many", [message(number, "q", number, message_id="m") for number in range(MOST_STAYS + 9)])
    found = find_paths(tmp_path / "many", "m")
    assert found.is_cut
    assert len(found.paths) == MOST_STAYS
    again = [event(number / 100, "delivered", "q", 1) for number in range(MOST_EVENTS + 9)]
    write_log(tmp_path / "again", again)
    found = find_paths(tmp_path / "again", "q/1")
    assert found.is_cut
    assert [len(path.stays[0].events) for path in found.paths] == [MOST_EVENTS]


def test_order_of_a_node_is_that_of_its_numbers_and_not_of_its_clock(tmp_path: Path) -> None:
    times = [(0, "queued"), (-3599, "delivered"), (-3598, "accepted")]
    write_log(tmp_path, [event(at, kind) for at, kind in times])
    (path,) = find_paths(tmp_path, "orders/1").paths
    assert [event.kind for event in path.stays[0].events] == ["queued", "delivered", "accepted"]


def test_search_without_a_result_says_where_it_has_searched(tmp_path: Path) -> None:
    write_log(tmp_path, normal_message())
    found = find_paths(tmp_path, "nothing")
    assert (found.paths, found.files, found.events) == ([], 1, 3)
    assert (found.first, found.last) == (NOON, NOON + timedelta(seconds=2.5))


@pytest.mark.parametrize("wanted", ["", "/", "a/", "/1", "q/99999999999999999999", "q/-1", "q/²", "🎈", "%", "'"])
def test_anything_can_be_searched_for(tmp_path: Path, wanted: str) -> None:
    write_log(tmp_path, normal_message())
    assert find_paths(tmp_path, wanted).paths == []


def test_empty_log_and_damaged_files_are_told_apart(tmp_path: Path) -> None:
    assert find_paths(tmp_path, "m").files == 0
    write_log(tmp_path, dead_letter())
    cut = next(tmp_path.glob("*/*/*.parquet")).with_name("trace-one-1-000009.parquet")
    cut.write_bytes(b"PAR1")
    found = find_paths(tmp_path, "bad")
    assert list(found.skipped) == [cut]
    assert len(found.paths) == 1


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceLogError, match="does not exist"):
        find_paths(tmp_path / "none", "m")
