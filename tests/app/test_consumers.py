"""Where feeds in this process have their actors."""

import trio
import trio.testing

from triomq.app import Broker
from triomq.app.feed import Inbox, Subscriber


async def test_actor_lives_from_its_start_to_its_stop(broker: Broker) -> None:
    ref = await broker.consumers.start(lambda: Subscriber(Inbox()))
    assert ref.state == "running"
    broker.consumers.stop(ref)
    assert ref.state == "stopped"


async def test_consumer_whose_supervisor_was_restarted_is_stopped_already(broker: Broker) -> None:
    inbox = Inbox()
    ref = await broker.consumers.start(lambda: Subscriber(inbox))
    assert ref.parent is not None
    ref.parent.crash(None, ValueError("all consumers"))
    broker.consumers.stop(ref)
    await trio.testing.wait_all_tasks_blocked()
    assert inbox.broken
    broker.consumers.stop(ref)
    assert (await broker.consumers.start(lambda: Subscriber(Inbox()))).state == "running"


async def test_turn_returns_the_result_of_its_function(broker: Broker) -> None:
    assert broker.consumers.turn(lambda: broker.system.turn.phase) > 0
    assert broker.system.turn.phase == 0
