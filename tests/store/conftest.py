from collections.abc import Iterator
from pathlib import Path

import pytest

from triomq.store import SqliteStore

from .stores import opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A new store in the test's own directory."""
    with opened(tmp_path) as store:
        yield store
