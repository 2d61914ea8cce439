import sys
from pathlib import Path

import pytest
from tests.jobs.worker import work

from triomq.errors import ConfigError
from triomq.jobs.worker import load_jobs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_registry_is_found_by_module_and_name() -> None:
    assert load_jobs("tests.jobs.worker.work:jobs") is work.jobs


def test_name_of_the_registry_is_jobs_if_it_is_left_out() -> None:
    assert load_jobs("tests.jobs.worker.work") is work.jobs


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("", "write MODULE:JOBS, such as mail:jobs"),
        ("there_is_no_such_module", "start the worker in the folder that has it"),
        ("tests.there_is_none:jobs", "no module 'tests.there_is_none'"),
        ("tests.jobs.worker.work:tasks", "there is tests.jobs.worker.work:jobs"),
        ("tests.jobs.worker.work:nothing", "no registry of jobs"),
        ("os:jobs", "write `jobs = Jobs()` into os"),
    ],
)
def test_what_is_wrong_with_a_target_is_said(target: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f".*{says}".replace("(", r"\(").replace(")", r"\)")):
        load_jobs(target)


def test_module_that_misses_another_one_says_which(folder: Path) -> None:
    (folder / "misses_one.py").write_text("import there_is_no_such_module")
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
        load_jobs("misses_one")
    assert "misses_one" not in sys.modules
