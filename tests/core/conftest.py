import logging

import pytest


@pytest.fixture
def quiet_crashes(caplog: pytest.LogCaptureFixture) -> None:
    """Crashes on purpose are not logged, by the thousand."""
    caplog.set_level(logging.CRITICAL, "triomq.actors")
