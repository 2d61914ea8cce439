"""The way of a message: real ones are traced and held against the page and against ceilings of files and functions."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "topics" / "life-of-a-message.rst").read_text(encoding="utf-8")
IN_ANOTHER_PROCESS = {"store/sqlite"}

# Files and functions that one message may go through in the broker. They only ever go down, but for a feature that
# every message must pass; then the commit says which.
CEILINGS = {
    "transient, no acks": (20, 70),
    "persistent, confirmed, no acks": (30, 150),
    "RestMS: POST, event, DELETE": (60, 250),
    "eMQP: job, REPLY": (58, 220),
    "MTL: content, confirm, accepted": (36, 160),
    "tap: record staged, committed": (45, 192),
}


def steps() -> list[set[str]]:
    """Return the files of each picture on the page: of a transient message, and what a durable one adds."""
    pictures = PAGE.split(".. message-trip::")[1:]
    return [set(re.findall(r"^   ([a-z_]+/[a-z_/]+): ", picture, re.MULTILINE)) for picture in pictures]


@cache
def trips() -> dict[str, list[tuple[str, str]]]:
    """Return the calls, a file and a function each, that every kind of message made."""
    program = [sys.executable, str(ROOT / "benchmarks" / "trip.py"), "--show"]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120)
    parts = re.split(r"^(?! )(.{34}).*\n", done.stdout, flags=re.MULTILINE)
    shown = {title.strip(): calls for title, calls in zip(parts[1::2], parts[2::2], strict=True)}
    return {title: re.findall(r"^ +([a-z_0-9/]+)\.py +(\S+)$", shown[title], re.MULTILINE) for title in CEILINGS}


def test_files_in_the_pictures_are_those_that_a_message_goes_through() -> None:
    ways = [trips()["transient, no acks"], trips()["persistent, confirmed, no acks"]]
    for shown, calls in zip(steps(), ways, strict=True):
        assert len(shown) > 5
        not_met = shown - {file for file, _ in calls} - IN_ANOTHER_PROCESS
        assert not not_met, "`python benchmarks/trip.py --show` prints the way that messages take now"


@pytest.mark.parametrize("title", CEILINGS)
def test_a_message_goes_through_no_more_files_and_functions_than_before(title: str) -> None:
    calls = trips()[title]
    files, functions = len({file for file, _ in calls}), len(set(calls))
    most_files, most_functions = CEILINGS[title]
    assert 0 < files <= most_files, "`python benchmarks/trip.py --show` prints them; a way gets shorter, not longer"
    assert 0 < functions <= most_functions
