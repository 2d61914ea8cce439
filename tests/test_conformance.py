"""What the conformance pages say is shown by a test is: each test that they name exists, in the file that they name."""

import re
from pathlib import Path

import pytest

from peers.differential.questions import QUESTIONS
from triomq.protocols.amqp import METHODS

TESTS = Path(__file__).parent
PAGES = sorted((TESTS.parent / "docs" / "conformance").glob("*.rst"))


def words(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).lower()


def claims(page: str) -> list[tuple[str, str]]:
    """List the pairs of file and test: the last cell of each row reads ```file``: a test, another; ```file``: …``."""
    found = []
    for row in re.findall(r"^   \* - .*?(?=^   \* - |^\S|\Z)", page, re.DOTALL | re.MULTILINE):
        cell = " ".join(row.rpartition("\n     - ")[2].split())
        for part in cell.split(";"):
            file, _, names = part.strip().partition(":")
            if file.startswith("``"):
                stem = Path(file.strip("`")).stem
                found += [(stem, name.strip()) for name in names.split(",")]
    return found


def rows(page: str) -> list[list[str]]:
    """List the cells of each row but the headings."""
    found = re.findall(r"^   \* - .*?(?=^   \* - |^\S|\Z)", page, re.DOTALL | re.MULTILINE)
    cells = [
        [" ".join(cell.split()) for cell in re.split(r"^     - |^   \* - ", row, flags=re.MULTILINE)[1:]]
        for row in found
    ]
    return [row for row in cells if row[0] != "section"]


def texts() -> dict[str, str]:
    """Return the words of each file of tests, those of one name in different packages together.

    What ``test_answers`` and ``test_differences`` ask is written elsewhere.
    """
    found = {
        "test_answers": words((TESTS / "peers" / "answers.csv").read_text(encoding="utf-8")),
        "test_differences": words(" ".join(question.title for question in QUESTIONS)),
    }
    for path in TESTS.rglob("test_*.py"):
        found[path.stem] = found.get(path.stem, "") + words(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_test_that_is_named_is_there(page: Path) -> None:
    there = texts()
    named = claims(page.read_text(encoding="utf-8"))
    missing = [f"{file}: {name}" for file, name in named if words(name).strip() not in there.get(file, "")]
    assert missing == []


AMQP = (TESTS.parent / "docs" / "conformance" / "amqp.rst").read_text(encoding="utf-8")


def test_every_row_of_amqp_says_where_what_and_shown_by_which_test() -> None:
    for section, rule, status, shown in rows(AMQP):
        assert re.fullmatch(r"[0-9]+(\.[0-9]+)*|0-[89]|RabbitMQ|–", section), section
        assert rule.endswith((".", ".)")), rule
        assert status in ("done", "different", "added", "not done")
        assert shown.startswith("``") or status == "not done", rule


def test_little_of_amqp_is_not_done() -> None:
    assert len([row for row in rows(AMQP) if row[2] == "not done"]) <= 5


def test_every_method_of_amqp_is_on_its_page() -> None:
    text = " ".join(AMQP.split())
    # Our own extension has a page of its own.
    names = [row.name for row in METHODS if row.class_id < 0xF000]
    assert [name for name in names if f"``{name}``" not in text] == []


def test_the_pages_name_tests() -> None:
    assert sum(len(claims(page.read_text(encoding="utf-8"))) for page in PAGES) > 50
