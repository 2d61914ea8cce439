"""The way of a message in the documentation is the one that a message takes: a real one is traced and compared."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "topics" / "life-of-a-message.rst").read_text(encoding="utf-8")
IN_ANOTHER_PROCESS = {"store/sqlite"}


def steps() -> list[set[str]]:
    """Return the files of each picture on the page: of a transient message, and what a durable one adds."""
    pictures = PAGE.split(".. message-trip::")[1:]
    return [set(re.findall(r"^   ([a-z_]+/[a-z_/]+): ", picture, re.MULTILINE)) for picture in pictures]


def trips() -> list[set[str]]:
    """Return the files that a transient and a durable message went through."""
    program = [sys.executable, str(ROOT / "benchmarks" / "trip.py"), "--show"]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    transient, durable = re.split(r"^persistent", done.stdout, flags=re.MULTILINE)
    return [set(re.findall(r"^ +([a-z_/]+)\.py ", text, re.MULTILINE)) for text in (transient, durable)]


def test_files_in_the_pictures_are_those_that_a_message_goes_through() -> None:
    for shown, gone_through in zip(steps(), trips(), strict=True):
        assert len(shown) > 5
        not_met = shown - gone_through - IN_ANOTHER_PROCESS
        assert not not_met, "`python benchmarks/trip.py --show` prints the way that messages take now"
