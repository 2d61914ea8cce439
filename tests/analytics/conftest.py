"""What is skipped where there is no Spark, and what computes tables: all that is said of them holds for both."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparks import WithoutSpark, missing_packages

if TYPE_CHECKING:
    from .frames import Engine


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return WithoutSpark.from_parent(parent, path=module_path) if missing_packages() else None


@pytest.fixture(scope="session", params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> "Engine":
    """Spark, or DuckDB."""
    if request.param == "spark":
        return request.getfixturevalue("spark")
    pytest.importorskip("duckdb", reason="duckdb missing: pip install 'triomq[report]'")
    from triomq.analytics.local_table import TRACE_COLUMNS, open_local

    return open_local(TRACE_COLUMNS.empty_table())
