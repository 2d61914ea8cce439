"""No package outgrows its budget in ``docs/topics/packages.toml``; the lines are counted by ``benchmarks/sizes.py``."""

from functools import cache
from pathlib import Path
from runpy import run_path

import pytest

# Not by its name: on the path, ``benchmarks/core.py`` would hide ``tests/core``.
PROGRAM = run_path(str(Path(__file__).parent.parent / "benchmarks" / "sizes.py"))
budgets, logical_lines, sizes = PROGRAM["budgets"], PROGRAM["logical_lines"], PROGRAM["sizes"]

BUDGETS = budgets()
lines_of_packages = cache(sizes)


@pytest.mark.parametrize("package", sorted(BUDGETS))
def test_package_is_within_its_budget(package: str) -> None:
    lines, budget = lines_of_packages()[package], BUDGETS[package]
    assert lines <= budget, (
        f"{package} has {lines:,} logical lines, its budget is {budget:,}. Delete what is needed no more, or move "
        "what is not its subject; `python benchmarks/sizes.py --parts` shows where the lines are. If the package is to "
        "do more than before, raise its budget in docs/topics/packages.toml, and write in the commit why."
    )


def test_budget_leaves_no_room_for_a_package_to_double() -> None:
    there = {name: lines for name, lines in lines_of_packages().items() if "." not in name}
    loose = {name: BUDGETS[name] - lines for name, lines in there.items() if BUDGETS[name] > 1.1 * lines + 50}
    assert not loose, f"so many lines are spare: {loose}; lower these budgets in docs/topics/packages.toml"


def test_logical_lines_are_statements_without_documentation_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""A docstring."""\n\n# a comment\nvalue = (\n    1,\n    2,\n)\n\n\ndef f():\n    """Two\n    lines."""\n'
        '\n\nMOST = 3\n"""A reason."""\n'
    )
    assert logical_lines(path) == 3  # the assignments and the `def`
