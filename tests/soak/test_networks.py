"""Half a minute of a network that loses half of what is sent: every client is back, and nothing confirmed is lost."""

import pytest

from clients.network.table import lossy, try_all


@pytest.mark.soak
def test_all_clients_are_back_after_half_a_minute_of_loss(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--soak-minutes"):
        pytest.skip("takes a minute: --soak-minutes")
    wrong = {cell: seen.error for cell, seen in try_all(lossy(30.0)).items() if seen.error}
    assert not wrong
