"""What all tests share: the options for peers, the Hypothesis profiles, and when Spark is skipped."""

import os
import signal

import pytest
from hypothesis import settings

from sparks import missing_spark, spark

__all__ = ["spark"]  # a fixture for tests/analytics and tests/pipeline

# `ci` is the same on every run, so that a red run can be repeated; `deep` looks further.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("deep", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker-url", help="run tests/peers against this broker (amqp://…) instead of `triomq serve`")
    parser.addoption("--soak-minutes", type=float, default=0, help="run tests/soak, for so long")
    parser.addoption("--crash-rounds", type=int, default=0, help="how often tests/crash kills each broker besides")
    parser.addoption("--crash-seed", type=int, default=None, help="the seed for that, as an earlier run has printed it")
    parser.addoption("--spark-slow", action="store_true", help="run clusters, Spark Connect and many kills as well")
    parser.addoption("--require-peers", action="store_true", help="a peer that is not installed fails its tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run last what shares the session of Spark: with it Ctrl-C ends otherwise in this process, and Java is there."""
    items.sort(key=lambda item: "spark" in getattr(item, "fixturenames", ()))


def pytest_runtest_setup(item: pytest.Item) -> None:
    is_slow = item.get_closest_marker("spark_slow") is not None
    if is_slow and not item.config.getoption("--spark-slow"):
        pytest.skip("takes some minutes: --spark-slow")
    if (is_slow or item.get_closest_marker("spark")) and (missing := missing_spark()):
        if item.config.getoption("--require-peers"):
            pytest.fail(missing)
        pytest.skip(missing)


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Shells start jobs in the background so; tests that press Ctrl-C would wait for ever.
        signal.signal(signal.SIGINT, signal.default_int_handler)
