"""Profiles of a user's own: what they may answer and raise, and what happens to a command that waits."""

from collections.abc import Iterable

import pytest
import trio
import zmq

from endpoints.mtl.conftest import Served, serving
from endpoints.mtl.profiles.user import choose
from triomq.actors.turn import BUDGET
from triomq.endpoints import MTL, mtl
from triomq.errors import ConfigError


@mtl.profile("own")
class OwnProfile(mtl.ResourceProfile):
    writer_confirms = frozenset({mtl.NO_CONFIRMS})

    @mtl.command("Own.Send")
    def send(self, work: mtl.DomainWork, arguments: mtl.NoArguments) -> dict[str, object]:
        return {"queues": work.publish("", "full", b"x")}

    @mtl.command("Own.Work")
    def work(self, work: mtl.DomainWork, arguments: mtl.NoArguments) -> dict[str, object]:
        before = work.system.turn.exhausted
        work.system.turn.charge(BUDGET + 1)
        return {"late": before}

    @mtl.command("Own.Answer")
    def answer(self, work: mtl.DomainWork, arguments: mtl.NoArguments) -> dict[str, object]:
        return {"text": "\udcff"}

    def target(self, work: mtl.DomainWork, resource: str) -> mtl.ContentTarget:
        return mtl.ContentTarget("", key=resource, queue=resource)

    def resources(self, work: mtl.DomainWork, *, reading: bool) -> Iterable[str]:
        number = 0
        while not reading:
            number += 1
            yield str(number)


PROFILES = (OwnProfile, "queue")


async def test_profile_is_described_as_far_as_an_answer_goes(nursery: trio.Nursery) -> None:
    async with serving(nursery, profiles=PROFILES) as served:
        user = await choose(served, "own")
        described = await user.does("Profile.Describe")
        assert described["commands"] == ["Own.Answer", "Own.Send", "Own.Work"]
        assert described["readers"] == {"confirm": ["full", "none"], "resources": []}
        assert (described["writers"]["confirm"], len(described["writers"]["resources"])) == (["none"], 1000)


async def test_profile_that_is_not_there_is_refused_by_code(nursery: trio.Nursery) -> None:
    async with serving(nursery, profiles=PROFILES) as served:
        control = await served.control().log_in()
        assert (await control.ask("Connection.Profile", profile="restms")).code == 400
        await control.done("Connection.Profile", profile="OWN")
        assert (await control.ask("Queue.Create", name="q")).code == 501
        assert (await control.ask("Connection.Writer", resources=[], confirm="full")).code == 501


async def test_answer_that_json_cannot_carry_is_an_error_of_the_profile(nursery: trio.Nursery) -> None:
    async with serving(nursery, profiles=PROFILES) as served:
        user = await choose(served, "own")
        assert await user.refused("Own.Answer") == 500
        assert (await user.does("Profile.Describe"))["profile"] == "own"


async def test_costly_commands_have_turns_of_their_own(nursery: trio.Nursery) -> None:
    async with serving(nursery, profiles=PROFILES) as served:
        control = await served.control(zmq.DEALER).work_with("own")
        for _ in range(10):
            await control.say("Own.Work")
        assert [(await control.hear()).body for _ in range(10)] == [{"late": False}] * 10


async def shorten_memory(served: Served) -> None:
    await served.broker.declare_queue("full", durable=False)
    await served.broker.publish("", "full", bytes(20_000))
    served.broker.set_memory_high_watermark(10_000)


async def test_command_that_cannot_be_done_now_is_done_later(nursery: trio.Nursery) -> None:
    async with serving(nursery, profiles=PROFILES) as served:
        user = await choose(served, "own")
        await shorten_memory(served)
        await user.control.say("Own.Send")
        await served.until(lambda: served.broker.directory.memory.on)
        await served.broker.queue("full").purge()
        assert await user.control.hear() == (200, {"queues": 1})


async def test_command_that_waits_is_answered_when_its_user_goes(nursery: trio.Nursery) -> None:
    async with serving(nursery, profiles=PROFILES) as served:
        user = await choose(served, "own", "other")
        await shorten_memory(served)
        await user.control.say("Own.Send")
        (session,) = served.endpoint.sessions
        await served.until(lambda: session._event is not None)
        served.broker.remove_user("other")
        assert (await user.control.hear()).code == 401
        await served.broker.queue("full").purge()
        assert (await user.control.ask("Own.Send")).code == 401


@pytest.mark.parametrize("named", ["nowhere:Nothing", "endpoints.mtl.profiles.user:ProfileUser", "unknown"])
def test_profile_that_cannot_be_had_is_refused_before_anything_listens(named: str) -> None:
    with pytest.raises((ConfigError, ValueError), match="profile"):
        MTL(port=0, profiles=(named,)).find_profiles()
