"""How large each package of triomq is, in logical lines, beside the budget that ``docs/topics/packages.toml`` gives it.

A logical line is a NEWLINE token that ends no documenting string: a statement counts once however it is wrapped, and
comments, docstrings, strings below constants and empty lines do not count. So no lines are saved by explaining less.

    python benchmarks/sizes.py              # packages
    python benchmarks/sizes.py --parts      # and their sub-packages
"""

import argparse
import ast
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "triomq"
TABLE = ROOT / "docs" / "topics" / "packages.toml"


def documentation_ends(tree: ast.Module) -> set[int]:
    """Return the lines on which docstrings, and strings that stand below constants, end."""
    return {
        node.end_lineno or 0
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def logical_lines(path: Path) -> int:
    """Count the logical lines of one file."""
    documented = documentation_ends(ast.parse(path.read_bytes()))
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return sum(token.type == tokenize.NEWLINE and token.start[0] not in documented for token in tokens)


def sizes(source: Path = SOURCE) -> Counter[str]:
    """Count the lines of each package, and of each sub-package under a name like ``core.queue``."""
    found: Counter[str] = Counter()
    for path in sorted(source.rglob("*.py")):
        *folders, file = path.relative_to(source).with_suffix("").parts
        lines = logical_lines(path)
        found[folders[0] if folders else "triomq" if file == "__init__" else file] += lines
        if len(folders) > 1:
            found[".".join(folders[:2])] += lines
    return found


def budgets(table: Path = TABLE) -> dict[str, int]:
    """Return the budget of each package, those that are only planned included."""
    rows = tomllib.loads(table.read_text(encoding="utf-8"))["packages"]
    return {name: row["budget"] for name, row in rows.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", action="store_true", help="sub-packages as well")
    with_parts = parser.parse_args().parts
    found, allowed = sizes(), budgets()
    print(f"{'package':24}{'lines':>8}{'budget':>8}")
    for name in sorted(found.keys() | allowed.keys()):
        if with_parts or "." not in name:
            print(f"{name:24}{found[name]:8,}{allowed.get(name, ''):>8}")
    print(f"{'all':24}{sum(found[name] for name in allowed):8,}{sum(allowed.values()):8,}")


if __name__ == "__main__":
    main()
