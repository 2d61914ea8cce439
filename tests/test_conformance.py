"""Each row of the conformance pages has a rule, a status and tests, and each test exists in the file that it names."""

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
    return [row for row in cells if row[0] not in ("section", "part")]


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
def test_tests_that_rows_name_exist(page: Path) -> None:
    there = texts()
    named = claims(page.read_text(encoding="utf-8"))
    missing = [f"{file}: {name}" for file, name in named if words(name).strip() not in there.get(file, "")]
    assert missing == []


WITH_ROWS = [page for page in PAGES if rows(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_ROWS, ids=[page.stem for page in WITH_ROWS])
def test_rows_have_a_rule_a_status_and_a_test(page: Path) -> None:
    for _, rule, status, shown in rows(page.read_text(encoding="utf-8")):
        assert rule.endswith((".", ".)")), rule
        assert status in ("done", "different", "added", "not done"), rule
        assert shown.startswith("``") or status == "not done", f"no test shows: {rule}"


AMQP = (TESTS.parent / "docs" / "conformance" / "amqp.rst").read_text(encoding="utf-8")


def test_rows_of_amqp_name_their_section() -> None:
    wrong = [row[0] for row in rows(AMQP) if not re.fullmatch(r"[0-9]+(\.[0-9]+)*|0-[89]|RabbitMQ|–", row[0])]
    assert wrong == []


def test_few_rows_of_amqp_are_not_done() -> None:
    assert len([row for row in rows(AMQP) if row[2] == "not done"]) <= 5


def test_methods_of_amqp_are_on_its_page() -> None:
    text = " ".join(AMQP.split())
    # Our own extension has a page of its own.
    names = [row.name for row in METHODS if row.class_id < 0xF000]
    assert [name for name in names if f"``{name}``" not in text] == []


def test_pages_name_more_than_fifty_tests() -> None:
    assert sum(len(claims(page.read_text(encoding="utf-8"))) for page in PAGES) > 50
