"""RestMS against a small model: whatever is made, posted, read, deleted and crashed, in whatever order.

Nothing is lost, nothing comes twice but what is marked, and the order is kept. Half of the runs have a store, and
restart. After each step all pipes are looked at; in the end everything is taken out of them.
"""

import logging
import tempfile
from collections.abc import Awaitable, Callable
from itertools import count

import outcome
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from endpoints.conftest import crash
from endpoints.restms.caller import open_restms, restms_of
from endpoints.restms.line import DOMAIN, Ended, Line, read
from endpoints.restms.model import SHARED, SINKS, Model, ModelFeed, ModelJoin, ModelPipe, Posted, Shown
from endpoints.toys.http_peer import Reply
from triomq.app import Broker

STEPS = 40
PATIENCE = 10.0
"""Seconds for what has to come, or has to be right, and is not yet: a store takes its time."""

WINDOW = 3
FEEDS, PIPES, POLLS = 4, 3, 3

ADDRESSES = ("a", "b", "a.b", "a.b.c")
PATTERNS = (*ADDRESSES, "#", "a.#", "*.b", "*", "#.c")
HEADERS = ({}, {"k": "1"}, {"k": "2"}, {"k": "1", "j": "x"})


@pytest.fixture(autouse=True)
def quiet_crashes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "triomq")


def elements(headers: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers.items()]


class Poll:
    """A GET of an asynclet, in a task of its own."""

    def __init__(self, pipe: ModelPipe, line: Line) -> None:
        self.pipe = pipe
        self.href = pipe.asynclet
        self.line = line
        self.reply: Reply | None = None

    async def run(self) -> None:
        try:
            self.reply = await self.line.ask("GET", self.href)
        except Ended:
            pass


class Listener:
    """A GET of a pipe's events, in a task of its own; ``known`` are those that it does not want."""

    def __init__(self, pipe: ModelPipe, line: Line, last: str) -> None:
        self.pipe = pipe
        self.line = line
        hrefs = [held.href for held in pipe.held]
        self.known = hrefs[: hrefs.index(last) + 1] if last else []
        self.last = last
        self.heard: list[str] = []
        self.ended = False

    async def run(self) -> None:
        headers = {"Accept": "text/event-stream"} | (
            {"Last-Event-ID": self.last.rpartition("/")[2]} if self.last else {}
        )
        stream, rest = self.line.stream, b""
        try:
            await stream.send_all(self.line.encode("GET", self.pipe.path, **headers))
            while data := await stream.receive_some():
                *lines, rest = (rest + bytes(data)).split(b"\n")
                self.heard += ["/restms/resource/" + line[4:].decode() for line in lines if line.startswith(b"id: ")]
                self.ended = self.ended or b"0\r" in lines  # the last chunk
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass


class Machine:
    """A broker, the model of it, and what happens to both.

    Args:
        data: What decides.
        nursery: For those who wait.
        directory: The store's; empty for a broker without one.
    """

    def __init__(self, data: st.DataObject, nursery: trio.Nursery, directory: str) -> None:
        self.draw = data.draw
        self.nursery = nursery
        self.directory = directory
        self.model = Model(WINDOW)
        self.numbers = count(1)
        self.polls: list[Poll] = []
        self.listeners: list[Listener] = []
        self.gone: list[str] = []  # URIs of messages that were deleted, or mean nothing any more

    async def open(self) -> None:
        self.broker: Broker = await self.nursery.start(self._serve)
        self.line = self.connect()

    async def _serve(self, *, task_status: trio.TaskStatus[Broker]) -> None:
        self._end, self._ended = trio.Event(), trio.Event()
        stored = {"data_dir": self.directory, "store_host": "thread"} if self.directory else {}
        async with open_restms(window=WINDOW, **stored) as broker:
            task_status.started(broker)
            await self._end.wait()
        self._ended.set()

    async def close(self) -> None:
        for one in (self, *self.polls, *self.listeners):
            await one.line.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        self._end.set()
        await self._ended.wait()

    def connect(self) -> Line:
        ours, theirs = trio.testing.memory_stream_pair()
        restms_of(self.broker).listener.connect_stream(theirs, "memory")
        return Line(ours)

    def choose_pipe(self) -> ModelPipe:
        return self.draw(st.sampled_from(list(self.model.pipes.values())))

    def choose_feed(self) -> ModelFeed:
        return self.draw(st.sampled_from(list(self.model.feeds.values())))

    def choose(self, *some: object) -> object:
        return self.draw(st.sampled_from(some))

    # What happens

    async def make_feed(self) -> None:
        name, type_ = f"f{next(self.numbers)}", str(self.choose(*SINKS, *SHARED, *SHARED))
        await self.line.make(DOMAIN, feed=[{"name": name, "type": type_}])
        self.model.feeds[name] = ModelFeed(name, type_)

    async def make_pipe(self) -> None:
        type_ = str(self.choose("", "fifo", "ondemand"))
        pipe = ModelPipe(await self.line.make(DOMAIN, pipe=[{"type": type_}]), type_)
        self.model.pipes[pipe.name] = pipe

    async def join(self) -> None:
        pipe, feeds = self.choose_pipe(), list(self.model.feeds.values())
        if pipe.is_ondemand and self.draw(st.sampled_from([True, True, True, False])):
            feeds = [feed for feed in feeds if feed.is_shared] or feeds  # it is refused by others
        feed = self.draw(st.sampled_from(feeds))
        headers = self.draw(st.sampled_from(HEADERS)) if feed.type == "headers" else {}
        join = ModelJoin(feed, self.draw(st.sampled_from(PATTERNS)), headers)
        document = {"feed": f"/restms/feed/{feed.name}", "address": join.address, "header": elements(headers)}
        reply = await self.line.post(pipe.path, join=[document])
        if pipe.is_ondemand and not feed.is_shared:
            assert reply.status == 403, reply
            return
        known = self.model.find_join(pipe, join)
        assert reply.status == (200 if known else 201), reply
        path = reply.headers["location"].removeprefix("http://toy")
        assert path == (known or path)
        pipe.joins.setdefault(path, join)

    async def delete_join(self) -> None:
        joins = [(pipe, path) for pipe in self.model.pipes.values() for path in pipe.joins]
        if joins:
            pipe, path = self.draw(st.sampled_from(joins))
            await self._delete(path)
            self.model.delete_join(pipe, path)

    async def post(self) -> None:
        """Post some messages: to a feed, or to the default one, which leads to pipes and shared feeds."""
        feed = self.draw(st.sampled_from([None, *self.model.feeds.values()]))
        names = [*self.model.pipes, *self.model.feeds] if feed is None else ADDRESSES
        address = self.draw(st.sampled_from([*names, "nowhere"]))
        headers = self.draw(st.sampled_from(HEADERS))
        persistent = self.draw(st.booleans())
        posted = [Posted(next(self.numbers), persistent) for _ in range(self.draw(st.integers(1, 4)))]
        is_refused = self.draw(st.sampled_from([False] * 9 + [True]))
        documents = [
            {
                "address": address,
                "message_id": str(message.number),
                "delivery_mode": "2" if persistent else "1",
                "header": elements(headers),
                "content": [{"type": "text/plain", "value": f"text of {message.number}"}],
            }
            for message in posted
        ]
        if is_refused:
            documents[-1]["user_id"] = "somebody else"
        reply = await self.line.post(f"/restms/feed/{'default' if feed is None else feed.name}", message=documents)
        assert (reply.status, reply.body if reply.status == 200 else b"") == (403 if is_refused else 200, b"")
        if not is_refused:
            self.model.post(feed, address, headers, posted)

    async def delete_message(self) -> None:
        pipe = self.choose_pipe()
        if pipe.held:
            place = self.draw(st.integers(0, len(pipe.held) - 1))
            await self._delete(pipe.held[place].href)
            self.gone += self.model.delete_message(pipe, place)

    async def ask_for_what_is_gone(self) -> None:
        """Get and delete a message that was deleted, and an asynclet; nothing comes of it."""
        if self.gone:
            href = self.draw(st.sampled_from(self.gone[-20:]))
            assert (await self.line.ask("GET", href)).status == 404
            await self._delete(href)
        assert (await self.line.ask("DELETE", self.choose_pipe().asynclet)).status == 404

    async def get_message(self) -> None:
        pipe = self.choose_pipe()
        if pipe.held:
            held = self.draw(st.sampled_from(pipe.held))
            (message,) = (await self.line.look(held.href))["message"]
            assert (message["message_id"], message["content"][0]["value"]) == number_and_text(held.number)

    async def delete_pipe(self) -> None:
        pipe = self.choose_pipe()
        await self._delete(pipe.path)
        self.gone += [held.href for held in pipe.held]
        self.model.delete_pipe(pipe)
        assert (await self.line.ask("GET", pipe.path)).status == 404

    async def delete_feed(self) -> None:
        feed = self.choose_feed()
        await self._delete(f"/restms/feed/{feed.name}")
        self.gone += [held.href for pipe in self.model.pipes.values() for held in pipe.held if held.feed is feed]
        self.model.delete_feed(feed)

    async def _delete(self, path: str) -> None:
        assert (await self.line.ask("DELETE", path)).status == 200

    # Those who wait

    async def poll(self) -> None:
        if len(self.polls) < POLLS:
            poll = Poll(self.choose_pipe(), self.connect())
            poll.pipe.is_asked = True
            self.polls.append(poll)
            self.nursery.start_soon(poll.run)

    async def give_up_a_poll(self) -> None:
        if self.polls:
            poll = self.draw(st.sampled_from(self.polls))
            self.polls.remove(poll)
            await poll.line.stream.aclose()

    async def listen(self) -> None:
        pipe = self.choose_pipe()
        last = str(self.draw(st.sampled_from(["", *[held.href for held in pipe.held]])))
        listener = Listener(pipe, self.connect(), last)
        self.listeners.append(listener)
        self.nursery.start_soon(listener.run)

    async def stop_listening(self) -> None:
        if self.listeners:
            await self.listeners.pop().line.stream.aclose()

    # What goes wrong

    async def crash_a_queue(self) -> None:
        pipes = [pipe for pipe in self.model.pipes.values() if not pipe.is_ondemand]
        which = self.draw(
            st.sampled_from([None, *pipes, *[feed for feed in self.model.feeds.values() if feed.is_shared]])
        )
        if which is None:
            return
        before = self._hrefs()
        crash(self.broker, which.name)
        await self.broker.directory.queues[which.name].ref.wait_running()
        if isinstance(which, ModelPipe):
            self.model.own_queue_crashed(which)
        else:
            self.model.shared_queue_crashed(which)
        self.gone += before - self._hrefs()

    async def crash_the_user(self) -> None:
        clients = restms_of(self.broker).resources.domains["default"].clients
        if clients:
            before = self._hrefs()
            (client,) = clients.values()
            client.ref.run_in_turn(fail)
            await trio.testing.wait_all_tasks_blocked()
            self.model.all_sleep()
            self.gone += before - self._hrefs()

    async def restart(self) -> None:
        if self.directory:
            before = self._hrefs()
            await self.close()
            self.polls, self.listeners = [], []
            await self.open()
            self.model.restart()
            self.gone += before

    def _hrefs(self) -> set[str]:
        return {held.href for pipe in self.model.pipes.values() for held in pipe.held}

    # What is seen

    async def look(self) -> None:
        """Compare everything with the model, as soon as all has come that has to."""
        missing: list[str] = []
        with trio.move_on_after(PATIENCE) as patience:
            while True:
                await trio.testing.wait_all_tasks_blocked()
                for pipe in self.model.pipes.values():
                    await self._look_at(pipe)
                missing = [*self.model.missing(), *self._unanswered(), *self._unheard()]
                if not missing:
                    break
                await trio.testing.wait_all_tasks_blocked(0.005)
        assert not patience.cancelled_caught, missing
        for poll in [poll for poll in self.polls if poll.reply is not None]:
            self.polls.remove(poll)
            await poll.line.stream.aclose()  # a broker that ends would wait for it
            self._judge(poll)
        for pipe in self.model.pipes.values():
            pipe.is_asked = any(poll.pipe is pipe for poll in self.polls)

    async def _look_at(self, pipe: ModelPipe) -> None:
        page = (await self.line.look(f"{pipe.path}?messages=100")).get("message", [])
        shown = []
        for message in page:
            number = int(message["message_id"])
            assert message["content"][0]["value"] == number_and_text(number)[1]
            shown.append(Shown(message["href"].removeprefix("http://toy"), number, message.get("redelivered") == "1"))
        self.model.observe(pipe, shown)
        (document,) = (await self.line.look(pipe.path))["pipe"]
        *hrefs, pipe.asynclet = [message["href"].removeprefix("http://toy") for message in document["message"]]
        assert [message.get("async") for message in document["message"]] == [None] * len(hrefs) + ["1"]
        joins = [(join["feed"].rpartition("/")[2], join["address"]) for join in document.get("join", [])]
        wanted = [("default", pipe.name)] if not pipe.is_ondemand else []
        assert sorted(joins) == sorted(wanted + [(join.feed.name, join.address) for join in pipe.joins.values()])

    def _unanswered(self) -> list[str]:
        return [
            f"poll of {poll.href}"
            for poll in self.polls
            if poll.reply is None
            and (poll.pipe.name not in self.model.pipes or poll.href in [held.href for held in poll.pipe.held])
        ]

    def _judge(self, poll: Poll) -> None:
        assert poll.reply is not None
        if poll.pipe.name not in self.model.pipes:
            assert poll.reply.status == 404
            return
        (held,) = [held for held in poll.pipe.held if held.href == poll.href]
        assert poll.reply.status == 200
        assert read(poll.reply)["message"][0]["message_id"] == str(held.number)

    def _unheard(self) -> list[str]:
        """Say what listeners have not heard; those whose pipe is gone hear the end."""
        missing = []
        for listener in self.listeners:
            if listener.pipe.name not in self.model.pipes:
                if not listener.ended:
                    missing.append("the end of a stream")
                continue
            assert len(set(listener.heard)) == len(listener.heard), "an event came twice"
            wanted = [held.href for held in listener.pipe.held if held.href not in listener.known]
            heard = [href for href in listener.heard if href in wanted]
            assert heard == wanted[: len(heard)], "events came in another order"
            if len(heard) < len(wanted):
                missing.append(f"events of {wanted[len(heard) :]}")
        return missing

    async def take_out(self) -> None:
        """Take out everything that is left: what was posted and not deleted must all come."""
        shared = [feed for feed in self.model.feeds.values() if feed.is_shared]
        pipe = ModelPipe(await self.line.make(DOMAIN, pipe=[{}]), "")
        self.model.pipes[pipe.name] = pipe
        for feed in shared:
            path = await self.line.make(pipe.path, join=[{"feed": f"/restms/feed/{feed.name}"}])
            pipe.joins[path] = ModelJoin(feed, "*", {})
        await self.look()
        while any(pipe.held for pipe in self.model.pipes.values()):
            for pipe in self.model.pipes.values():
                if pipe.held:
                    await self._delete(pipe.held[-1].href)
                    self.model.delete_message(pipe, len(pipe.held) - 1)
                    await self.look()
        assert not any(pipe.own for pipe in self.model.pipes.values())
        assert not any(feed.left for feed in shared)


def number_and_text(number: int) -> tuple[str, str]:
    return str(number), f"text of {number}"


def fail() -> None:
    raise RuntimeError("a bug")


Step = Callable[[Machine], Awaitable[None]]

ALWAYS: list[Step] = [Machine.make_feed, Machine.make_pipe]
WITH_PIPES: list[Step] = [
    *[Machine.post] * 5,
    *[Machine.delete_message] * 4,
    *[Machine.poll] * 2,
    Machine.give_up_a_poll,
    Machine.listen,
    Machine.stop_listening,
    Machine.get_message,
    Machine.ask_for_what_is_gone,
    Machine.delete_join,
    Machine.delete_pipe,
    Machine.crash_a_queue,
    Machine.crash_the_user,
    Machine.restart,
]
WITH_FEEDS: list[Step] = [*[Machine.join] * 3, Machine.delete_feed]


def steps_of(machine: Machine) -> list[Step]:
    model = machine.model
    some = ALWAYS[:1] if len(model.feeds) < FEEDS else []
    some = some + (ALWAYS[1:] if len(model.pipes) < PIPES else [])
    if model.pipes:
        some = some + WITH_PIPES + (WITH_FEEDS if model.feeds else [])
    return some


async def run(data: st.DataObject, directory: str) -> None:
    async with trio.open_nursery() as nursery:
        machine = Machine(data, nursery, directory)
        await machine.open()
        result = await outcome.acapture(take_steps, machine)
        await machine.close()
        nursery.cancel_scope.cancel()
    result.unwrap()  # out here, as no group: Hypothesis throws what tells it where to go on


async def take_steps(machine: Machine) -> None:
    for begin in (machine.make_feed, machine.make_pipe, machine.join) * 2:
        await begin()
        await machine.look()
    for _ in range(machine.draw(st.integers(STEPS // 4, STEPS))):
        step = machine.draw(st.sampled_from(steps_of(machine)))
        note(step.__name__)
        await step(machine)
        await machine.look()
    await machine.take_out()


@given(data=st.data(), has_store=st.booleans())
@settings(max_examples=settings.default.max_examples // 3, suppress_health_check=list(HealthCheck))
def test_pipes_hold_what_the_model_says(data: st.DataObject, has_store: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        trio.run(run, data, directory if has_store else "")
