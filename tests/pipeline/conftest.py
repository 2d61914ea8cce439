"""One broker for the whole folder, and what is skipped where there is no Spark."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparks import WithoutSpark, missing_packages

from .broker import TapBroker

_WITHOUT_SPARK = {"test_java.py", "test_options.py"}
"""Tests of what imports neither PySpark nor PyArrow."""

_numbers = itertools.count(1)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if missing_packages() and module_path.name not in _WITHOUT_SPARK:
        return WithoutSpark.from_parent(parent, path=module_path)
    return None


@pytest.fixture(scope="package")
def tap_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TapBroker]:
    """A broker with tap, AMQP and its data on disk; a test may restart it, and takes a ``name`` of its own in it."""
    broker = TapBroker(tmp_path_factory.mktemp("broker") / "data")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def own_tap_broker(tmp_path: Path) -> Iterator[TapBroker]:
    """A broker of the test's own, which it may kill, or leave dead."""
    broker = TapBroker(tmp_path / "data")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def name() -> str:
    """A name that nothing in the broker has yet."""
    return f"test-{next(_numbers)}"
