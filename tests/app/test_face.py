"""The names that ``import triomq`` offers."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import triomq

ROOT = Path(__file__).parent.parent.parent
NAMES = sorted(set(triomq.__all__) - {"__version__"})


def names_for_tools() -> set[str]:
    """Read what type checkers see."""
    module = ast.parse(Path(triomq.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in module.body if isinstance(node, ast.If)]
    return {alias.asname or "" for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_names_are_the_same_for_people_type_checkers_and_programs() -> None:
    assert set(triomq._MODULES) == names_for_tools() == set(NAMES)
    assert dir(triomq) == sorted(triomq.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_name_is_that_of_its_module(name: str) -> None:
    found = getattr(triomq, name)
    assert found is getattr(sys.modules[triomq._MODULES[name]], name)


@pytest.mark.parametrize("name", NAMES)
def test_reference_lists_each_name(name: str) -> None:
    text = (ROOT / "docs" / "reference" / "api.rst").read_text(encoding="utf-8")
    assert re.search(rf"`~triomq\.[a-z.]+\.{name}`", text)


def test_unknown_name_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"'triomq' has no attribute 'open_brokr'.* open_broker"):
        triomq.open_brokr  # noqa: B018  (looking is what is tested)


def test_importing_triomq_loads_nothing_yet() -> None:
    program = "import sys, triomq; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert [name for name in loaded if name.startswith(("triomq.", "trio.", "msgspec"))] == [
        "triomq.lazy",
        "triomq.version",
    ]
