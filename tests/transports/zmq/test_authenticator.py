"""Handshakes that an authenticator decides, with pyzmq's own sockets as peers."""

from collections.abc import AsyncIterator

import pytest
import trio
import zmq
from zmq.utils import z85

from triomq.transports.zmq import (
    Authenticator,
    Frames,
    Question,
    Received,
    Router,
    ZAPMechanism,
    close_context,
    make_context,
)
from triomq.transports.zmq.authenticator import read_question

PUBLIC, SECRET = zmq.curve_keypair()
SERVER_PUBLIC, SERVER_SECRET = zmq.curve_keypair()


class Guarded:
    """A router that lets in the user ``alice`` with a password, and the owner of a key."""

    def __init__(self) -> None:
        self.contexts = [make_context(), make_context()]
        self.questions: list[Question] = []
        self.authenticator = Authenticator(self.contexts[0], self.decide)
        self.received: Received = {}
        self.router = Router(self.contexts[0], self.received.update, domain="here")
        self.peer = self.contexts[1].socket(zmq.DEALER)

    async def decide(self, question: Question) -> str | None:
        self.questions.append(question)
        if question.mechanism is ZAPMechanism.CURVE:
            return "owner" if question.key == z85.decode(PUBLIC) else None
        return "alice" if (question.user, question.password) == ("alice", "secret") else None

    def connect(self, user: bytes = b"", password: bytes = b"") -> zmq.Socket[bytes]:
        """Connect to the router, which wants passwords then, and return what tells of the handshake."""
        self.router.socket.plain_server = True
        self.peer.plain_username, self.peer.plain_password = user, password
        return self.connect_as_it_is()

    def connect_as_it_is(self) -> zmq.Socket[bytes]:
        watch = self.peer.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self.peer.connect(self.router.bind("tcp://127.0.0.1:0"))
        return watch

    async def outcome(self, watch: zmq.Socket[bytes]) -> int:
        """Wait for the end of the handshake."""
        with trio.fail_after(60):
            while not watch.poll(0):  # noqa: ASYNC110  # a thread of libzmq works
                await trio.sleep(0.001)
        return int.from_bytes(watch.recv_multipart()[0][:2], "little")

    async def message(self) -> tuple[str, list[Frames]]:
        """Wait for a message, and return its user, and what has come of that one."""
        with trio.fail_after(60):
            while not self.received:  # noqa: ASYNC110  # a thread of libzmq works
                await trio.sleep(0.001)
        ((_, user), messages), *_ = self.received.items()
        return user, messages


@pytest.fixture
async def guarded(nursery: trio.Nursery) -> AsyncIterator[Guarded]:
    guarded = Guarded()
    nursery.start_soon(guarded.authenticator.run)
    nursery.start_soon(guarded.router.run)
    yield guarded
    guarded.router.close()
    guarded.authenticator.close()
    await close_context(guarded.contexts[0])
    guarded.contexts[1].destroy(0)


async def test_plain_password_lets_a_peer_in_and_its_messages_name_the_user(guarded: Guarded) -> None:
    watch = guarded.connect(b"alice", b"secret")
    assert await guarded.outcome(watch) == zmq.EVENT_HANDSHAKE_SUCCEEDED
    guarded.peer.send(b"hello")
    assert await guarded.message() == ("alice", [[b"hello"]])
    (question,) = guarded.questions
    assert (question.domain, question.address, question.mechanism) == ("here", "127.0.0.1", ZAPMechanism.PLAIN)
    assert "secret" not in repr(question)


async def test_wrong_password_is_refused(guarded: Guarded) -> None:
    watch = guarded.connect(b"alice", b"wrong")
    assert await guarded.outcome(watch) == zmq.EVENT_HANDSHAKE_FAILED_AUTH


async def test_curve_key_lets_its_owner_in(guarded: Guarded) -> None:
    guarded.router.socket.curve_server = True
    guarded.router.socket.curve_secretkey = SERVER_SECRET
    peer = guarded.peer
    peer.curve_publickey, peer.curve_secretkey, peer.curve_serverkey = PUBLIC, SECRET, SERVER_PUBLIC
    assert await guarded.outcome(guarded.connect_as_it_is()) == zmq.EVENT_HANDSHAKE_SUCCEEDED
    peer.send(b"hello")
    user, _ = await guarded.message()
    assert user == "owner"


async def test_peer_without_a_mechanism_is_asked_about_as_well(guarded: Guarded) -> None:
    watch = guarded.connect_as_it_is()
    with trio.fail_after(60):
        while not guarded.questions:  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.001)
    assert guarded.questions[0].mechanism is ZAPMechanism.NULL
    assert await guarded.outcome(watch) == zmq.EVENT_HANDSHAKE_FAILED_AUTH


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"", b"1.0", b"1", b"here", b"127.0.0.1", b"", b"GSSAPI", b"alice"],
        [b"", b"1.0", b"1", b"here", b"127.0.0.1", b"", b"PLAIN", b"alice"],
        [b"", b"1.0", b"1", b"here", b"127.0.0.1", b"", b"PLAIN", b"\xff", b"secret"],
        [b"", b"1.0", b"1", b"here", b"127.0.0.1", b"", b"CURVE"],
    ],
)
def test_questions_of_unknown_form_are_refused(frames: list[bytes]) -> None:
    assert read_question(frames)[1] is None
