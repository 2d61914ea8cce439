"""What is skipped where there is no Spark."""

from pathlib import Path

import pytest

from sparks import WithoutSpark, missing_packages


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return WithoutSpark.from_parent(parent, path=module_path) if missing_packages() else None
