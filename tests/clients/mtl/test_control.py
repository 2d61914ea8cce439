"""The control flow of a client: logins, sessions that are forgotten, answers that do not come."""

from base64 import b64decode

import pytest
import trio
from scramp import ScramMechanism

from clients.mtl.stub import READY, StubServer, challenge, unauthorized
from ports import free_port
from triomq.clients import open_mtl
from triomq.errors import (
    AccessRefused,
    Disconnected,
    LimitExceeded,
    LocalProtocolError,
    NotFound,
    PreconditionFailed,
    Refused,
    RemoteProtocolError,
)


async def test_session_begins_with_host_and_profile(stub: StubServer, url: str) -> None:
    async with open_mtl(url + "/shop%2Ftest?profile=test") as mtl:
        assert mtl.profiles == ("queue",)
        assert await mtl.call("Queue.Create", {"name": "q"}) == {}
    assert stub.asked[:3] == [
        ("Connection.Open", {"protocol": {"name": "MTL", "version": 1}, "virtual-host": "shop/test"}),
        ("Connection.Profile", {"profile": "test"}),
        ("Queue.Create", {"name": "q"}),
    ]


async def test_user_logs_in_by_plain_where_nothing_better_is_offered(stub: StubServer, url: str) -> None:
    stub.answers["Connection.Open"] = [unauthorized("EXTERNAL", "plain")]
    async with open_mtl(url):
        name, arguments = stub.asked[1]
    assert (name, arguments["mechanism"]) == ("Connection.Authorize", "plain")
    assert b64decode(arguments["response"]) == b"\0ada\0secret"


class ScramStub:
    """The server's side of SCRAM, made of scramp."""

    def __init__(self, stub: StubServer, password: str = "secret") -> None:
        mechanism = ScramMechanism("SCRAM-SHA-256")
        information = mechanism.make_auth_info(password, iteration_count=4096)
        self._server = mechanism.make_server(lambda user: information)
        self._stub = stub
        stub.answers["Connection.Open"] = [unauthorized("PLAIN", "SCRAM-SHA-256")]
        stub.decide = self.answer

    def answer(self, command: str, arguments: dict[str, str]) -> "tuple[int, dict[str, object]] | None":
        if command != "Connection.Authorize":
            return None
        response = b64decode(arguments["response"]).decode()
        if not response:
            return READY
        if response.startswith("n,"):
            self._server.set_client_first(response)
            return challenge("SCRAM-SHA-256", self._server.get_server_first())
        self._server.set_client_final(response)
        return challenge("SCRAM-SHA-256", self._server.get_server_final())


async def test_scram_is_preferred_and_both_sides_show_that_they_know_the_password(stub: StubServer, url: str) -> None:
    ScramStub(stub)
    async with open_mtl(url):
        pass
    assert [name for name, _ in stub.asked][:4] == ["Connection.Open", *["Connection.Authorize"] * 3]
    assert b"secret" not in b"".join(b64decode(fields.get("response", "")) for _, fields in stub.asked)


async def test_server_that_lets_in_without_its_proof_is_not_believed(stub: StubServer, url: str) -> None:
    stub.answers["Connection.Open"] = [unauthorized("SCRAM-SHA-256")]
    with pytest.raises(AccessRefused, match="without having shown"):
        async with open_mtl(url):
            pass


@pytest.mark.parametrize(
    ("answers", "error", "text"),
    [
        ([unauthorized("PLAIN")], AccessRefused, "does not let ada in by PLAIN"),
        ([challenge("PLAIN", "?")], RemoteProtocolError, "which has said all"),
        ([(503, {"status": "Overloaded", "reason": "too many sessions"})], LimitExceeded, "503 too many sessions"),
    ],
    ids=["wrong password", "a challenge of PLAIN", "refused otherwise"],
)
async def test_failed_login_is_an_error_of_opening(
    stub: StubServer, url: str, answers: list[tuple[int, dict[str, object]]], error: type[Exception], text: str
) -> None:
    stub.answers["Connection.Open"] = [unauthorized("PLAIN")]
    stub.answers["Connection.Authorize"] = list(answers)
    with pytest.raises(error, match=text):
        async with open_mtl(url):
            pass


@pytest.mark.parametrize(
    ("credentials", "options", "offered", "text"),
    [
        ("", "", ["PLAIN"], "takes PLAIN, and the URL has neither a user nor keys"),
        ("ada:secret@", "?auth_mechanism=scram-sha-512", ["PLAIN"], "and asks for scram-sha-512"),
        ("ada:secret@", "", [], "takes nothing"),
    ],
    ids=["nobody", "another mechanism", "none"],
)
async def test_url_without_what_the_broker_takes_says_what_is_missing(
    stub: StubServer, credentials: str, options: str, offered: list[str], text: str
) -> None:
    stub.answers["Connection.Open"] = [unauthorized(*offered)]
    with pytest.raises(AccessRefused, match=text):
        async with open_mtl(f"mtl://{credentials}127.0.0.1:{stub.port}{options}"):
            pass


async def test_command_that_is_answered_401_is_asked_again_in_a_new_session(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl:
        stub.answers["Queue.Create"] = [unauthorized("PLAIN"), (200, {"status": "OK", "created": True})]
        stub.answers["Connection.Open"] = [unauthorized("PLAIN")]
        assert await mtl.call("Queue.Create", {"name": "q"}) == {"created": True}
        assert mtl.statistics().sessions == 2
    names = [name for name, _ in stub.asked]
    again = ["Connection.Open", "Connection.Authorize", "Connection.Profile", "Queue.Create"]
    assert names[2:7] == ["Queue.Create", *again]


async def test_server_that_wants_a_login_after_each_login_is_left_alone(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl:
        stub.answers["Queue.Create"] = [unauthorized("PLAIN")] * 3
        with pytest.raises(AccessRefused, match="wants another login"):
            await mtl.call("Queue.Create", {"name": "q"})
        assert await mtl.call("Queue.Create", {"name": "q"}) == {}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, Refused),
        (403, AccessRefused),
        (404, NotFound),
        (409, PreconditionFailed),
        (501, Refused),
        (503, LimitExceeded),
    ],
)
async def test_refusal_is_an_error_with_the_reason(
    stub: StubServer, url: str, code: int, error: type[Exception]
) -> None:
    async with open_mtl(url) as mtl:
        stub.answers["Queue.Delete"] = [(code, {"status": "No", "reason": "because"})]
        with pytest.raises(error, match=f"{code} because"):
            await mtl.call("Queue.Delete", {"name": "q"})


async def test_answer_that_does_not_come_is_an_error_and_one_that_is_late_harms_nobody(
    stub: StubServer, url: str
) -> None:
    async with open_mtl(url + "?timeout=0.2") as mtl:
        stub.answers["Queue.List"] = [None]
        with pytest.raises(Disconnected, match="may have done what it was asked for"):
            await mtl.call("Queue.List")
        stub.answers["Queue.List"] = [(200, {"status": "OK", "queues": []})]
        assert await mtl.call("Queue.List") == {"queues": []}


async def test_command_on_its_way_when_the_connection_breaks_is_not_sent_again(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl:
        stub.answers["Queue.Purge"] = [None]
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def purge() -> None:
                with pytest.raises(Disconnected, match="lost before the broker had answered"):
                    await mtl.call("Queue.Purge", {"name": "q"})

            await stub.wait_asked("Queue.Purge")
            await stub.restart()
        assert await mtl.call("Queue.List") == {}
    assert stub.count("Queue.Purge") == 1
    assert stub.count("Connection.Open") == 2


async def test_call_that_is_cancelled_leaves_the_session_as_it_is(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl:
        stub.answers["Queue.List"] = [None]
        with trio.move_on_after(0.1):
            await mtl.call("Queue.List")
        assert await mtl.call("Queue.List") == {}
        assert mtl.statistics().sessions == 1


async def test_broker_that_is_not_there_is_an_error_that_says_where() -> None:
    port = free_port()
    with pytest.raises(Disconnected, match=f"no broker at tcp://127.0.0.1:{port} answers"):
        async with open_mtl(f"mtl://127.0.0.1:{port}?timeout=0.2"):
            pass


async def test_argument_that_json_cannot_have_is_refused_here(stub: StubServer, url: str) -> None:
    async with open_mtl(url) as mtl:
        with pytest.raises(LocalProtocolError):
            await mtl.call("Queue.Create", {"name": object()})
        assert await mtl.call("Queue.List") == {}


async def test_error_in_the_block_comes_out_bare(stub: StubServer, url: str) -> None:
    with pytest.raises(KeyError):
        async with open_mtl(url):
            raise KeyError
