"""Engines of both sides that talk to each other, over connections that lose what was under way.

What must hold: a writer that says again what it has no answer for, on one flow of its lease after the other, has each
content taken once, and never takes one for safe that is not.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.mtl.wire import TEXT_PLAIN, served
from triomq.protocols.mtl import (
    ConfirmRun,
    ContentRun,
    ContentsRejected,
    Frames,
    IllFormed,
    LeaseClaimed,
    MTLDataClient,
    MTLDataServer,
    ResponseReceived,
    Summoned,
    WriterLog,
    content_suffix,
)

SUFFIX = content_suffix("resource", TEXT_PLAIN)


class Writing:
    """A writer and its broker: what the one takes to be open, safe and rejected, and what the other has taken."""

    def __init__(self) -> None:
        self.log = WriterLog()
        self.open: dict[int, bytes] = {}
        self.safe: set[int] = set()
        self.rejected: set[int] = set()
        self.taken: list[int] = []
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self.next = 1
        self.connect()

    def connect(self) -> None:
        """Begin a new flow; what was under way on the old one is lost."""
        self.to_server: list[Frames] = []
        self.to_client: list[Frames] = []
        self.server = MTLDataServer(now=0.0)
        self.client = MTLDataClient("writer", confirm="full", now=0.0, next_sequence=self.next)
        self.client.claim("lease")
        self.client.send_again([(number, SUFFIX, body) for number, body in self.open.items()])
        self.talk()

    def write(self, count: int) -> None:
        bodies = [b"body"] * count
        first = self.client.send_contents(SUFFIX, bodies)
        self.open.update(zip(range(first, first + count), bodies, strict=True))
        self.talk()

    def talk(self) -> None:
        """Put what was said on its way."""
        self.to_server += self.client.messages_to_send()
        self.to_client += self.server.messages_to_send()
        self.next = self.client.next_sequence

    def serve(self, count: int, *, put_back: bool) -> None:
        """Have messages arrive at the server; those that are put back come again."""
        messages, self.to_server = self.to_server[:count], self.to_server[count:]
        place = 0
        while place < len(messages):
            run = self.server.receive_run(messages, place)
            event = run or self.server.receive(messages[place])
            if isinstance(event, ContentRun) and put_back:
                self.server.put_back()
                self.to_server = messages[place:] + self.to_server
                break
            place += run.count if run else 1
            if isinstance(event, LeaseClaimed):
                self.server.grant(event, "writer", ["resource"], confirm="full", log=self.log)
            elif isinstance(event, ContentRun):
                self.server.accept(event.sequences)
                self.taken += event.sequences
            assert not isinstance(event, IllFormed)
        self.talk()

    def hear(self, count: int) -> None:
        """Have messages arrive at the client."""
        messages, self.to_client = self.to_client[:count], self.to_client[count:]
        for message in messages:
            event: Any = self.client.receive(message)
            assert isinstance(event, ResponseReceived | ConfirmRun | ContentsRejected)
            if isinstance(event, ConfirmRun):
                self._settle([n for n in self.open if n <= event.up_to or n in event.sequences], self.safe)
            elif isinstance(event, ContentsRejected):
                self._settle([event.sequence], self.rejected)

    def _settle(self, numbers: list[int], fate: set[int]) -> None:
        fate.update(number for number in numbers if self.open.pop(number, None) is not None)

    def judge(self, wanted: list[int], *, confirm: bool) -> None:
        """Have the broker confirm or reject some of what it has taken."""
        pending = sorted(set(self.taken) - self.confirmed - self.refused)
        numbers = [pending[place % len(pending)] for place in wanted] if pending else []
        if self.server.state != "writing":
            return
        numbers = list(dict.fromkeys(numbers))
        if confirm:
            self.confirmed.update(numbers)
            self.server.confirm_contents(numbers)
        else:
            self.refused.update(numbers)
            self.server.reject_contents(numbers, recycle=True)
        self.talk()

    def check(self) -> None:
        assert len(self.taken) == len(set(self.taken))
        assert self.safe <= self.confirmed
        assert self.rejected <= self.refused

    def finish(self) -> None:
        """Let all that is under way arrive, on a last flow, and everything be confirmed."""
        self.connect()
        for _ in range(3):
            self.serve(10_000, put_back=False)
            self.judge(list(range(len(self.taken))), confirm=True)
            self.hear(10_000)
        assert self.open == {}
        assert self.safe | self.rejected == set(self.taken)
        assert self.safe == self.confirmed


few = st.integers(1, 6)
steps = st.lists(
    st.tuples(st.just("write"), few)
    | st.tuples(st.sampled_from(["serve", "serve", "put back", "hear", "hear"]), few)
    | st.tuples(st.just("connect"), st.just(0))
    | st.tuples(st.sampled_from(["confirm", "confirm", "reject"]), st.lists(st.integers(0, 9), min_size=1, max_size=4)),
    max_size=40,
)


@given(steps)
def test_content_is_taken_once_and_never_safe_before_it_is_whatever_is_lost(drawn: list[tuple[str, Any]]) -> None:
    writing = Writing()
    for step, how in drawn:
        match step:
            case "write":
                writing.write(how)
            case "serve" | "put back":
                writing.serve(how, put_back=step == "put back")
            case "hear":
                writing.hear(how)
            case "connect":
                writing.connect()
            case _:
                writing.judge(how, confirm=step == "confirm")
        writing.check()
    writing.finish()
    writing.check()


@pytest.mark.parametrize("confirmed", [False, True])
def test_reader_gets_what_it_summons_and_settles_it(confirmed: bool) -> None:
    server = served("reader", "full" if confirmed else "none")
    client = MTLDataClient("reader", confirm="full" if confirmed else "none", now=0.0)
    client.claim("abc123")
    client.summon("")
    for message in client.messages_to_send():
        event = server.receive(message)
        if isinstance(event, Summoned):
            server.answer(event)
            server.send_contents(SUFFIX, [b"a", b"b", b"c"])
    messages = server.messages_to_send()
    assert [client.receive(message) for message in messages[:2]] == [ResponseReceived(1, 200), ResponseReceived(2, 200)]
    run = client.receive_run(messages, 2)
    assert isinstance(run, ContentRun)
    assert run.bodies == [b"a", b"b", b"c"]
    if confirmed:
        client.reject(run.sequences[0], recycle=True)
        client.confirm(run.sequences[-1], multiple=True)
        assert [server.receive(message) for message in client.messages_to_send()] == [
            ContentsRejected(1, False, True),
            ConfirmRun(3, [], 1),
        ]
