"""Every example runs as it stands, in a process of its own, with warnings as errors, and ends by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
PARTS = {
    "line_engine",  # which line_protocol imports
    "thumbnails",  # which wolfpack imports
    "spark_orders",  # which needs Spark, and prints its warnings
    "send_mails",  # which needs a broker and a worker beside it: tests/jobs/test_tutorial.py has them
    "test_mail_jobs",  # which pytest runs, below
}
EXAMPLES = [path for path in sorted(FOLDER.glob("*.py")) if path.stem not in PARTS]
PATIENCE = 100.0  # seconds; an example needs less than one, a machine under load may need more


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


@pytest.mark.spark
def test_pipeline_through_spark_runs_and_ends_well(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / "spark_orders.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        '{"minute":"12:00","product":"rice","total":1}',
        '{"minute":"12:00","product":"tea","total":5}',
        '{"minute":"12:01","product":"tea","total":4}',
    ]


def test_example_of_a_test_suite_passes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-o", "trio_mode=true", "-p", "no:asyncio",
         "-p", "no:cacheprovider", str(FOLDER / "test_mail_jobs.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
