"""A broker in a thread of its own."""

from concurrent.futures import wait

import pytest

from app.portal.conftest import PATIENCE, ruin
from triomq.app.portal.thread import BrokerThread
from triomq.errors import ActorStopped, RestartLimitExceeded


def test_thread_ends_after_the_drain() -> None:
    thread = BrokerThread()
    assert thread.started.result(PATIENCE).broker.domains == ["default"]
    thread.drain()
    thread.over.result(PATIENCE)
    error = KeyError()
    assert thread.error_of_block(error) is error


def test_thread_that_is_cancelled_while_it_starts_never_starts() -> None:
    thread = BrokerThread()
    thread.cancel()
    thread.over.result(PATIENCE)
    thread.cancel()  # again does no harm
    if thread.started.exception() is not None:  # it may have been quicker
        with pytest.raises(ActorStopped):
            thread.started.result()


@pytest.mark.usefixtures("quiet_log")
def test_failure_of_the_broker_goes_before_errors_that_follow_from_it() -> None:
    thread = BrokerThread()
    ruin(thread.started.result(PATIENCE))
    wait([thread.over])
    failure = thread.over.exception()
    assert isinstance(failure, RestartLimitExceeded)
    assert thread.error_of_block(ActorStopped()) is failure
    assert thread.error_of_block(failure) is failure
    mine = KeyError()
    assert thread.error_of_block(mine) is mine
    assert mine.__notes__ == [f"The broker failed too: {failure!r}"]
