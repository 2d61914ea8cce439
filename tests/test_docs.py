"""What the documentation names is there: files, dotted names, and the output of what it shows at a prompt."""

import doctest
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = sorted(path.name for path in (ROOT / "src" / "triomq").iterdir() if path.is_dir())
PAGES = sorted([*(ROOT / "docs").rglob("*.rst"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
FILE = re.compile(rf"(?:src|tests|benchmarks|docs|examples|newsfragments|triomq|{'|'.join(PACKAGES)})/[\w./-]+")
NAME = re.compile(rf"triomq\.(?:{'|'.join(PACKAGES)}|errors|checked|pytest_plugin)(?:\.\w+)*")


def literals(page: Path) -> set[str]:
    """Return what a page writes as code within its sentences."""
    found = re.findall(r"``([^`]+)``|`([^`]+)`", page.read_text(encoding="utf-8"))
    return {double or single for double, single in found}


def files_of_trips(page: Path) -> set[str]:
    """Return the files of the steps that pictures are drawn from."""
    return set(re.findall(r"^   ([a-z_]+/[a-z_/]+): ", page.read_text(encoding="utf-8"), re.MULTILINE))


def is_there(name: str) -> bool:
    """Tell whether a file or folder is in the tree, named from its top or from the package, with or without ``.py``."""
    return any((ROOT / above / f"{name}{end}").exists() for above in ("", "src", "src/triomq") for end in ("", ".py"))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = {name for name in literals(page) if FILE.fullmatch(name)} | files_of_trips(page)
    missing = sorted(name for name in named if not is_there(name))
    assert not missing, f"{page.relative_to(ROOT)} names files that are not there: name those that do this now"


def resolves(name: str) -> bool:
    """Tell whether a dotted name is there; of an attribute of a class, whether the class is."""
    for candidate in (name, name.rpartition(".")[0]):
        try:
            return isinstance(pkgutil.resolve_name(candidate), type) or candidate == name
        except (AttributeError, ImportError):
            continue
    return False


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_dotted_names_on_a_page_lead_somewhere(page: Path) -> None:
    named = {name for name in literals(page) if NAME.fullmatch(name)}
    wrong = sorted(name for name in named if not resolves(name))
    assert not wrong, f"{page.relative_to(ROOT)} names what cannot be imported"


def test_lines_at_a_prompt_on_the_design_page_print_what_stands_there() -> None:
    page = ROOT / "docs" / "topics" / "design.rst"
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried
    assert not failed, "what stands in the page and what Python prints are above"
