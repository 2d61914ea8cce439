"""What the conformance pages say is shown by a test is: each test that they name exists, in the file that they name."""

import re
from pathlib import Path

import pytest

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


def texts() -> dict[str, str]:
    """Give the words of each file of tests; those of the same name in different rooms together."""
    found: dict[str, str] = {"test_answers": words((TESTS / "peers" / "answer_rows.py").read_text(encoding="utf-8"))}
    for path in TESTS.rglob("test_*.py"):
        found[path.stem] = found.get(path.stem, "") + words(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_test_that_is_named_is_there(page: Path) -> None:
    there = texts()
    named = claims(page.read_text(encoding="utf-8"))
    missing = [f"{file}: {name}" for file, name in named if words(name).strip() not in there.get(file, "")]
    assert missing == []


def test_the_pages_name_tests() -> None:
    assert sum(len(claims(page.read_text(encoding="utf-8"))) for page in PAGES) > 50
