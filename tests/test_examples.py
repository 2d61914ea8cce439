"""Every example runs as it stands, in a process of its own, with warnings as errors, and ends by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = [
    path
    for path in sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
    if path.stem != "line_engine"  # which line_protocol imports
]
PATIENCE = 30  # seconds; an example needs less than one, a machine under load may need more


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_runs_and_ends_well(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout
