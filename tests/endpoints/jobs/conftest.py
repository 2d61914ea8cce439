from collections.abc import Iterator

import pytest

from .workshop import Workshop


@pytest.fixture
def workshop() -> Iterator[Workshop]:
    made = Workshop("q", "other")
    yield made
    made.close()
