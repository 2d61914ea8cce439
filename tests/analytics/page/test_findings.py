"""What is wrong, in sentences."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from triomq.analytics.page.findings import Finding, find, with_names
from triomq.analytics.page.queues import name_queues
from triomq.analytics.page.tables import read_tables

from .made_tables import Row, bad_day, day, log, write_tables


def found_in(folder: Path, tables: Mapping[str, Sequence[Row]]) -> list[Finding]:
    write_tables(folder, tables)
    return find(with_names(read_tables(folder / "tables"), lambda table: name_queues(table, [])))


def test_day_on_which_all_went_well_has_no_findings(tmp_path: Path) -> None:
    assert found_in(tmp_path, day(["orders", "mail"])) == []


def test_bad_day_begins_with_what_has_failed(tmp_path: Path) -> None:
    found = found_in(tmp_path, bad_day(["orders", "mail"]))
    assert [f"{finding.count} {finding.title}" for finding in found] == [
        "1 lost peer",
        "19 dead letters",
        "60 jobs failed for good",
        "8 jobs timed out",
        "3 delivered and never settled",
        "240 retries",
        "1 queue grows",
        "1 slow queue",
        "1,000 events not in the log",
        "250 events missing in the log",
        "1 file skipped",
        "2 messages with a wait below zero",
    ]
    assert [finding.is_bad for finding in found] == [True] * 5 + [False] * 7


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        (
            {"dead_letters": [{"from_queue": name, "reason": "expired", "messages": 2} for name in "abcde"]},
            "By reason: expired 10. From a 2, b 2, c 2 and 2 more.",
        ),
        ({"dead_letters": [{"messages": 1}]}, "By reason: – 1. From – 1."),
        ({"lost_peers": [{"peer": "x"}]}, "They had 0 deliveries that were not settled. The last: x, – UTC."),
        ({"unsettled": [{"queue": "q"}]}, ""),
        ({"unsettled_by_queue": [{"queue": "q", "messages": 7}]}, "Most in q 7. "),
        (
            {"waits": [{"queue": "q", "wait_p95": 61.0}]},
            "One in twenty messages waits at least so long (p95): q 1.02 min.",
        ),
        (
            {"throughput": [{"queue": "q", "queued": 300, "delivered": 200}]},
            "More came in than went out: q 100. A stream does so by its nature.",
        ),
        ({"log": [log(skipped=["a: cut", "b: cut"])]}, "a: cut, b: cut."),
    ],
)
def test_finding_says_what_and_where(tmp_path: Path, tables: Mapping[str, Sequence[Row]], text: str) -> None:
    (finding,) = found_in(tmp_path, tables)
    assert finding.text == text


def test_few_messages_that_wait_are_no_queue_that_grows(tmp_path: Path) -> None:
    assert found_in(tmp_path, {"throughput": [{"queue": "q", "queued": 99, "delivered": 0}]}) == []


@pytest.mark.parametrize("otherwise", [{"gone": 200}, {"purges": 1}])
def test_queue_whose_messages_expire_or_are_removed_does_not_grow(tmp_path: Path, otherwise: Row) -> None:
    assert found_in(tmp_path, {"throughput": [{"queue": "q", "queued": 300, "delivered": 100, **otherwise}]}) == []
