"""A broker in a thread of its own."""

from concurrent.futures import wait

import pytest

from app.portal.conftest import PATIENCE, ruin
from triomq.app.portal.thread import BrokerThread
from triomq.errors import ActorStopped, RestartLimitExceeded


def test_it_ends_when_it_is_left() -> None:
    thread = BrokerThread()
    assert thread.started.result(PATIENCE).broker.domains == ["default"]
    thread.leave()
    thread.over.result(PATIENCE)
    error = KeyError()
    assert thread.reason(error) is error


def test_cut_while_it_starts_it_never_starts() -> None:
    thread = BrokerThread()
    thread.cut()
    thread.over.result(PATIENCE)
    thread.cut()  # again does no harm
    if thread.started.exception() is not None:  # it may have been quicker
        with pytest.raises(ActorStopped):
            thread.started.result()


@pytest.mark.usefixtures("quiet_log")
def test_its_failure_is_the_reason_of_what_only_follows_from_it() -> None:
    thread = BrokerThread()
    ruin(thread.started.result(PATIENCE))
    wait([thread.over])
    failure = thread.over.exception()
    assert isinstance(failure, RestartLimitExceeded)
    assert thread.reason(ActorStopped()) is failure
    assert thread.reason(failure) is failure
    mine = KeyError()
    assert thread.reason(mine) is mine
    assert mine.__notes__ == [f"The broker failed too: {failure!r}"]
