"""Control sessions: log-in, profiles, what is refused, and who may have one."""

import json
from base64 import b64encode

import pytest
import trio
import trio.lowlevel
import trio.testing
import zmq

from endpoints.mtl.conftest import USERS, Served, serving
from peers.mtl_peer import OPEN
from triomq.app import User
from triomq.core import Restarting
from triomq.endpoints import mtl
from triomq.endpoints.base.domain_work import DomainWork
from triomq.security import make_verifier

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
LOGIN_REQUIRED = (401, {"mechanisms": MECHANISMS})
READY = (201, {"profiles": ["test", "queue", "restms", "amqp", "plain"]})


async def test_whatever_comes_before_open_is_answered_by_401(served: Served) -> None:
    control = served.control()
    for name in ("Connection.Authorize", "Connection.Profile", "Connection.Writer", "Thing.Make", "nonsense"):
        assert await control.ask(name) == LOGIN_REQUIRED
    assert not served.endpoint.sessions
    await served.until(lambda: len(served.endpoint.ref.children) == 0)  # such a peer leaves nothing here


async def test_client_logs_in_by_plain_chooses_a_profile_and_uses_it(served: Served) -> None:
    control = served.control()
    assert await control.open() == LOGIN_REQUIRED
    assert await control.authorize() == READY
    assert (await control.ask("Thing.Make", name="q")).code == 400  # no profile yet
    assert (await control.ask("connection.PROFILE", profile="Plain")).code == 200
    assert await control.ask("thing.make", name="q") == (200, {"name": "q"})
    assert "q" in served.broker.directory.queues


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_client_logs_in_by_scram_with_one_more_402_for_the_proof_of_the_server(
    served: Served, mechanism: str
) -> None:
    control = served.control()
    await control.open()
    assert await control.scram(mechanism=mechanism) == READY
    await control.open()
    assert await control.scram(password="wrong", mechanism=mechanism) == LOGIN_REQUIRED
    assert await control.scram("nobody", mechanism=mechanism) == LOGIN_REQUIRED


async def test_client_without_an_initial_response_gets_an_empty_challenge(served: Served) -> None:
    control = served.control()
    await control.open()
    assert await control.ask("Connection.Authorize", mechanism="plain") == (
        402,
        {"mechanism": "PLAIN", "challenge": ""},
    )
    assert await control.authorize() == READY


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"mechanism": "KERBEROS_V4", "response": ""}, 401),
        ({"mechanism": "EXTERNAL", "response": ""}, 401),  # nobody has shown a key
        ({"mechanism": "ANONYMOUS", "response": ""}, 401),  # nobody has allowed that
        ({"mechanism": 7}, 400),
        ({"mechanism": "PLAIN", "response": "!!"}, 400),
        ({"mechanism": "PLAIN", "response": b64encode(bytes(9000)).decode()}, 400),
        ({"mechanism": "PLAIN", "response": b64encode(b"guest").decode()}, 401),
    ],
)
async def test_log_in_that_makes_no_sense_is_refused(served: Served, arguments: dict[str, object], code: int) -> None:
    control = served.control()
    await control.open()
    assert (await control.ask("Connection.Authorize", **arguments)).code == code
    assert await control.authorize() == READY


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, 400),
        ({"protocol": "MTL"}, 400),
        ({"protocol": {"name": "MTP", "version": 1}}, 400),
        ({"protocol": {"name": "MTL", "version": "1"}}, 400),
        ({"protocol": {"name": "MTL", "version": 2}}, 505),
        ({**OPEN, "virtual-host": 7}, 400),
    ],
)
async def test_open_that_makes_no_sense_is_refused(served: Served, arguments: dict[str, object], code: int) -> None:
    assert (await served.control().ask("Connection.Open", **arguments)).code == code


async def test_wrong_password_and_unknown_user_are_answered_alike(served: Served) -> None:
    control = served.control()
    await control.open()
    assert await control.authorize("guest", "wrong") == LOGIN_REQUIRED
    assert await control.authorize("nobody", "wrong") == LOGIN_REQUIRED
    assert await control.authorize() == READY


async def test_user_who_may_not_enter_the_virtual_host_is_refused(served: Served) -> None:
    control = served.control()
    await control.open()
    assert (await control.authorize("foreign")).code == 403


async def test_profile_or_lease_that_makes_no_sense_is_refused(served: Served) -> None:
    control = await served.control().log_in()
    for profile in ("amqp0", 7, None):
        assert (await control.ask("Connection.Profile", profile=profile)).code == 400
    assert (await control.ask("Connection.Writer", resources=[])).code == 400  # no profile yet
    await control.done("Connection.Profile", profile="test")
    for resources in (None, "resource", [7], ["x" * 256], [""]):
        assert (await control.ask("Connection.Reader", resources=resources)).code == 400
    assert (await control.ask("Connection.Reader", resources=["other"])).code == 404
    assert (await control.ask("Connection.Reader", resources=[], confirm="sometimes")).code == 400
    for direction in ("Writer", "Reader"):
        assert (await control.ask(f"Connection.{direction}", resources=["resource"], confirm="full")).code == 501


async def test_lease_needs_the_rights_of_its_user(served: Served) -> None:
    await served.broker.declare_queue("q", durable=False)
    control = await served.control().work_with("plain", "reader")
    assert (await control.ask("Connection.Reader", resources=["q"])).code == 202
    assert (await control.ask("Connection.Writer", resources=["q"])).code == 403
    assert (await control.ask("Thing.Make", name="mine")).code == 403


async def test_command_of_a_profile_may_be_unknown_wrong_or_refused(served: Served) -> None:
    control = await served.control().work_with("plain")
    assert (await control.ask("Thing.Break")).code == 501
    assert (await control.ask("Thing")).code == 501
    assert (await control.ask("Connection.Dance")).code == 501
    reply = await control.ask("Thing.Make", name=7)
    assert (reply.code, "name" in reply.body["reason"]) == (400, True)
    assert await control.ask("Thing.Fail") == (400, {"reason": "it never works"})


async def test_profile_describes_itself(served: Served) -> None:
    await served.broker.declare_queue("q", durable=False)
    control = await served.control().work_with("plain")
    found = await control.done("Profile.Describe")
    assert (found["profile"], found["commands"]) == ("plain", ["Thing.Fail", "Thing.Make"])
    assert found["readers"] == {"confirm": ["full", "none"], "resources": ["q"]}


async def test_open_again_drops_user_and_profile_and_keeps_leases(served: Served) -> None:
    control = await served.control().work_with("test")
    leased = await control.lease("Writer")
    assert await control.open() == LOGIN_REQUIRED
    assert await control.ask("Connection.Writer", resources=[]) == LOGIN_REQUIRED
    await served.claimed(leased)


async def test_other_user_takes_over_the_session_and_ends_its_leases(served: Served) -> None:
    control = await served.control().work_with("test")
    leased = await control.lease("Writer")
    assert await control.authorize() == READY  # the same user again
    data = await served.claimed(leased)
    assert await control.authorize("other") == READY
    assert await data.ask("lease", 5, leased["lease"]) == 403
    assert not len(served.endpoint.leases)


async def test_other_user_who_may_not_be_there_leaves_nothing_of_the_first_one(served: Served) -> None:
    control = await served.control().work_with("plain")
    assert (await control.authorize("foreign")).code == 403
    assert await control.ask("Thing.Make", name="q") == LOGIN_REQUIRED
    assert [session.user for session in served.endpoint.sessions] == [""]
    assert await control.authorize() == READY


class Away(Restarting):
    """An actor that comes back when a test wants it."""

    back: trio.Event

    async def wait_over(self) -> None:
        await self.back.wait()


@mtl.profile("waiting")
class WaitingProfile(mtl.ResourceProfile):
    """Its one command waits."""

    back = trio.Event()
    waits = False

    @mtl.command("Thing.Wait")
    def wait(self, work: DomainWork, arguments: mtl.NoArguments) -> dict[str, object]:
        away = Away(work.domain)
        away.back, self.waits = self.back, True
        raise away


async def test_command_that_has_waited_when_its_user_was_removed_disturbs_no_later_one(nursery: trio.Nursery) -> None:
    users = {**USERS, "slow": User(verifiers=(str(make_verifier(b"slow", iterations=4096)),))}
    async with serving(nursery, profiles=(WaitingProfile,), broker={"users": users}) as served:
        control = served.control(zmq.DEALER)
        profile = served.endpoint.profiles["waiting"]
        assert isinstance(profile, WaitingProfile)
        profile.back = trio.Event()
        await control.work_with("waiting", "other")
        await control.say("Thing.Wait")
        await served.until(lambda: profile.waits)
        served.broker.remove_user("other")
        assert (await control.hear()).code == 401
        limiter = served.endpoint.context.password_limiter
        others = [object() for _ in range(int(limiter.total_tokens))]
        for each in others:
            await limiter.acquire_on_behalf_of(each)
        response = b64encode(b"\0slow\0slow").decode()
        await control.say("Connection.Authorize", mechanism="PLAIN", response=response)
        await served.until(lambda: limiter.statistics().tasks_waiting == 1)
        profile.back.set()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert limiter.statistics().tasks_waiting == 1
        for each in others:
            limiter.release_on_behalf_of(each)
        assert (await control.hear()).code == 201
        await control.done("Connection.Profile", profile="waiting")


async def test_close_ends_the_session_and_its_leases(served: Served) -> None:
    control = await served.control().work_with("test")
    leased = await control.lease("Writer")
    assert (await control.ask("Connection.Close")).code == 200
    assert await control.ask("Connection.Profile", profile="test") == LOGIN_REQUIRED
    assert await served.data().ask("lease", 1, leased["lease"]) == 403
    assert not served.endpoint.sessions


@pytest.mark.parametrize(
    ("profile", "command", "arguments"),
    [
        ("plain", "Connection.Reader", {"resources": [f"sink/{number}" for number in range(1024)]}),
        ("queue", "Queue.List", {"limit": 1000}),
    ],
)
async def test_commands_that_take_long_are_done_in_several_turns(
    served: Served, profile: str, command: str, arguments: dict[str, object]
) -> None:
    for number in range(700):
        await served.broker.declare_queue(f"queue-{number}", durable=False)
    control = await served.control(zmq.DEALER).work_with(profile)
    (session,) = served.endpoint.sessions
    frames = [command.encode(), json.dumps(arguments).encode()]
    session.ref.run_in_turn(session.received, [frames] * 10)  # as if all had come at once
    assert {(await control.hear()).code for _ in range(10)} <= {200, 202}
    assert session._put_off_event is not None


async def test_commands_of_a_dealer_that_does_not_wait_are_answered_in_order(served: Served) -> None:
    control = served.control(zmq.DEALER)
    response = b64encode(b"\0guest\0guest").decode()
    await control.say("Connection.Open", **OPEN)
    await control.say("Connection.Authorize", mechanism="PLAIN", response=response)
    await control.say("Connection.Profile", profile="plain")
    await control.say("Thing.Make", name="q")
    await control.say("Thing.Fail")
    assert [(await control.hear()).code for _ in range(5)] == [401, 201, 200, 200, 400]


async def test_req_that_correlates_is_answered(served: Served) -> None:
    def correlate(socket: "zmq.Socket[bytes]") -> None:
        socket.setsockopt(zmq.REQ_CORRELATE, 1)

    control = served.control(prepare=correlate)
    await control.work_with("plain")
    assert (await control.ask("Thing.Make", name="q")).code == 200


async def test_ill_formed_requests_are_dropped_and_counted(served: Served) -> None:
    control = served.control(zmq.DEALER)
    for frames in (
        [b"Connection.Open"],
        [b"", b"Connection.Open"],
        [b"", b"Connection.Open", b"{}", b"{}"],
        [b"Connection.Open", b"{}", b"{}"],
        [b"", b"", b"{}"],
        [b"", b"\xff", b"{}"],
        [b"", b"x" * 256, b"{}"],
        [b"", b"Connection.Open", b""],
        [b"", b"Connection.Open", b"[]"],
        [b"", b"Connection.Open", b'{"a": NaN}'],
        [b"", b"Connection.Open", b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}"],
        [b"", b"Connection.Open", b'{"a": "' + b"x" * 70_000 + b'"}'],
        [*([b"\0abcd"] * 9), b"", b"Connection.Open", b"{}"],
    ):
        await control.socket.send(frames)
    assert await control.open() == LOGIN_REQUIRED  # they had no answer
    counted = served.endpoint.troubles
    assert counted == {"frames": 3, "name": 4, "json": 4, "too-long": 1, "envelope": 1}


async def test_client_that_guesses_waits_longer_each_time_and_begins_anew_after_ten(
    nursery: trio.Nursery, jumping_time: None
) -> None:
    async with serving(nursery, session_seconds=10_000.0) as served:
        clock = trio.lowlevel.current_clock()
        control = served.control(zmq.DEALER)
        await control.open()
        wrong = b64encode(b"\0guest\0wrong").decode()
        for delay in (0, 0, 1, 2, 4, 8, 16, 30, 30, 30):
            await control.say("Connection.Authorize", mechanism="PLAIN", response=wrong)
            if delay:
                await served.until(lambda: any(peer._answer_at < 1e9 for peer in served.endpoint.sessions))
                clock.jump(delay - 0.5)
                await trio.lowlevel.checkpoint()
                assert not control.socket.receive_nowait()
                clock.jump(1.0)
            assert (await control.hear()).code == 401
        await served.until(lambda: not served.endpoint.sessions)
        assert await control.authorize() == LOGIN_REQUIRED  # which begins with Open again


async def test_idle_session_is_forgotten_and_its_leases_go_on(nursery: trio.Nursery, jumping_time: None) -> None:
    async with serving(
        nursery, session_seconds=100.0, heartbeat=1000.0, silence=2000.0, lease_seconds=1000.0
    ) as served:
        control = await served.control().work_with("test")
        leased = await control.lease("Writer")
        clock = trio.lowlevel.current_clock()
        clock.jump(99)
        await control.done("Connection.Profile", profile="test")
        clock.jump(105)
        await served.until(lambda: not served.endpoint.sessions)
        assert await control.ask("Connection.Profile", profile="test") == LOGIN_REQUIRED
        await served.claimed(leased)


async def test_session_that_is_not_logged_in_is_forgotten_no_later_than_an_idle_one(
    nursery: trio.Nursery, jumping_time: None
) -> None:
    for seconds, patience in ((1000.0, 60.0), (5.0, 5.0)):
        async with serving(nursery, session_seconds=seconds) as served:
            await served.control().open()
            trio.lowlevel.current_clock().jump(patience - 1)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert len(served.endpoint.sessions) == 1
            trio.lowlevel.current_clock().jump(2)
            await served.until(lambda: not served.endpoint.sessions)


async def test_session_ends_when_its_user_is_removed(served: Served) -> None:
    control = await served.control().work_with("test", "other")
    data = await served.claimed(await control.lease("Writer"))
    served.broker.remove_user("other")
    await served.until(lambda: not len(served.endpoint.leases))
    assert await control.ask("Connection.Profile", profile="test") == LOGIN_REQUIRED
    assert await data.ask("lease", 9, "x") == 403
    assert await control.authorize() == READY


async def test_sessions_above_the_limit_are_refused(nursery: trio.Nursery) -> None:
    async with serving(nursery, most_sessions=1) as served:
        first = await served.control().log_in()
        second = served.control()
        assert (await second.open()).code == 503
        await first.done("Connection.Close")
        assert await second.open() == LOGIN_REQUIRED


async def test_leases_above_the_limit_are_refused(nursery: trio.Nursery) -> None:
    async with serving(nursery, most_leases=2) as served:
        control = await served.control().work_with("test")
        await control.lease("Writer")
        await control.lease("Reader")
        assert (await control.ask("Connection.Reader", resources=[])).code == 503


async def test_guest_works_without_a_log_in_and_anonymous_with_one(nursery: trio.Nursery) -> None:
    async with serving(nursery, guest="reader", anonymous="other", mechanisms=()) as served:
        control = served.control()
        assert await control.open() == READY
        await control.done("Connection.Profile", profile="plain")
        assert (await control.ask("Thing.Make", name="q")).code == 403
        assert await control.ask("Connection.Authorize", mechanism="ANONYMOUS", response="bWU=") == READY
        await control.done("Connection.Profile", profile="plain")
        assert (await control.ask("Thing.Make", name="q")).code == 200


async def test_unknown_virtual_host_is_told_to_those_who_have_logged_in_alone(nursery: trio.Nursery) -> None:
    async with serving(nursery, virtual_hosts={"/": "default", "Test": "default"}) as served:
        control = served.control()
        assert await control.open(**{"virtual-host": "test"}) == LOGIN_REQUIRED  # names are told apart by case
        assert (await control.authorize()).code == 404
        assert await control.ask("Connection.Profile", profile="plain") == LOGIN_REQUIRED
        await control.log_in(**{"virtual-host": "Test"})


async def test_user_may_log_in_where_the_guest_may_not_be(nursery: trio.Nursery) -> None:
    async with serving(nursery, guest="foreign") as served:
        control = served.control()
        assert await control.open() == LOGIN_REQUIRED
        assert await control.authorize() == READY


@pytest.mark.parametrize(("guest", "code", "status"), [("", "401", "Unauthorized"), ("guest", "201", "Ready")])
async def test_client_of_2011_that_knows_connection_open_alone_is_answered_as_the_specification_has_it(
    nursery: trio.Nursery, guest: str, code: str, status: str
) -> None:
    """The octets are those of the only program that was written with the specification: JSON over several lines."""
    text = b'{\n\t"protocol":\t{\n\t\t"name":\t"MTL",\n\t\t"version":\t1\n\t},\n\t"virtual-host":\t"home"\n}'
    async with serving(nursery, guest=guest, virtual_hosts={"home": "default"} if guest else {}) as served:
        control = served.control()
        await control.socket.send([b"Connection.Open", text])
        with trio.fail_after(60):
            ((found, body),) = await control.socket.receive(1)
    key, names = ("profiles", READY[1]["profiles"]) if guest else ("mechanisms", MECHANISMS)
    assert (found.decode(), json.loads(body)) == (code, {"status": status, key: names})


async def test_one_connection_cannot_take_all_sessions_and_who_is_not_logged_in_gives_way(
    nursery: trio.Nursery,
) -> None:
    async with serving(nursery, most_sessions=50) as served:
        known = await served.control().log_in()
        attacker = served.control(zmq.DEALER)
        for number in range(60):  # as if it were a proxy
            route = b"\0" + number.to_bytes(4, "big")
            await attacker.socket.send([route, b"", b"Connection.Open", json.dumps(OPEN).encode()])
        await served.until(lambda: len(served.endpoint.sessions) == 50)
        assert await served.control().open() == LOGIN_REQUIRED
        assert (await known.ask("Connection.Profile", profile="test")).code == 200
    async with serving(nursery) as served:
        attacker = served.control(zmq.DEALER)
        for number in range(120):
            route = b"\0" + number.to_bytes(4, "big")
            await attacker.socket.send([route, b"", b"Connection.Open", json.dumps(OPEN).encode()])
        await served.until(lambda: len(served.endpoint.sessions) == 100)
