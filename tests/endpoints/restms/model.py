"""What feeds, pipes and joins do by 2/RestMS, 3/Defaults and 4/AMQP9: a model, with nothing of the broker's in it.

It knows what was posted, and so what has to come out of each pipe, in which order, and whether it has to be marked. Of
a rotator or a service it does not know which pipe gets a message: it learns that by looking, and holds that no other
pipe has it, and that it waits for nobody who has room. What it does not know at all: URIs, time, and how any of it is
done.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

SINKS = ("direct", "fanout", "topic", "headers")
SHARED = ("rotator", "service")


class Posted(NamedTuple):
    """A message: a number that no other has, and whether it outlives the broker."""

    number: int
    persistent: bool


class Shown(NamedTuple):
    """A message as a pipe shows it."""

    href: str
    number: int
    marked: bool


class Held(NamedTuple):
    """A message that has a URI; ``feed`` is the shared one that it came from."""

    href: str
    number: int
    feed: "ModelFeed | None"


class ModelJoin(NamedTuple):
    """A join."""

    feed: "ModelFeed"
    address: str
    headers: Mapping[str, str]


class ModelFeed:
    """A feed, in RestMS's sense; of a shared one also what is in it, and who has what."""

    def __init__(self, name: str, type_: str) -> None:
        self.name = name
        self.type = type_
        self.left: dict[int, Posted] = {}  # not deleted yet, wherever it is
        self.holders: dict[int, ModelPipe] = {}
        self.seen: set[int] = set()  # what a pipe had once, and is marked if another gets it

    @property
    def is_shared(self) -> bool:
        return self.type in SHARED


class ModelPipe:
    """A pipe."""

    def __init__(self, path: str, type_: str) -> None:
        self.path = path
        self.name = path.rpartition("/")[2]
        self.is_ondemand = type_ == "ondemand"
        self.joins: dict[str, ModelJoin] = {}  # by URI
        self.own: list[Posted] = []  # not deleted yet, those from shared feeds excepted
        self.held: list[Held] = []  # what has a URI, oldest first
        self.seen: set[int] = set()  # of its own
        self.newest: dict[str, int] = {}  # by shared feed, the last number that came unmarked
        self.asynclet = ""
        self.is_asked = False  # whether somebody waits for its next message

    def own_held(self) -> int:
        return sum(held.feed is None for held in self.held)

    def is_joined_to(self, feed: ModelFeed) -> bool:
        return any(join.feed is feed for join in self.joins.values())


def topic_matches(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """``*`` is one word, ``#`` any number of them (4/AMQP9)."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(topic_matches(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_matches(pattern[1:], words[1:])


def matches(join: ModelJoin, address: str, headers: Mapping[str, str]) -> bool:
    """Whether a message that was posted to a join's feed, which is not shared, goes where it leads to."""
    match join.feed.type:
        case "fanout":
            return True
        case "topic":
            return topic_matches(join.address.split("."), address.split("."))
        case "headers":
            return join.headers.items() <= headers.items()
        case _:
            return join.address == address


class Model:
    """All feeds and pipes of a domain.

    Args:
        window: How many messages of a pipe have URIs at once.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.feeds: dict[str, ModelFeed] = {}
        self.pipes: dict[str, ModelPipe] = {}  # by name
        self._shared: dict[int, ModelFeed] = {}  # where a number was posted to, if that is shared

    def find_join(self, pipe: ModelPipe, wanted: ModelJoin) -> str | None:
        """Return the URI of a join that is the same; for a shared feed an address means nothing."""
        for path, join in pipe.joins.items():
            if join == wanted or (join.feed is wanted.feed and wanted.feed.is_shared):
                return path
        return None

    # What is done to it

    def post(self, feed: ModelFeed | None, address: str, headers: Mapping[str, str], posted: Iterable[Posted]) -> None:
        """Post to a feed, or to the default one: there an address is the name of a pipe, or of a shared feed."""
        if feed is None and address in self.feeds and self.feeds[address].is_shared:
            feed = self.feeds[address]
        for message in posted:
            if feed is not None and feed.is_shared:
                feed.left[message.number] = message
                self._shared[message.number] = feed
                continue
            for pipe in self.pipes.values():
                if self._is_for(pipe, feed, address, headers):
                    pipe.own.append(message)  # once, however many joins match

    def _is_for(self, pipe: ModelPipe, feed: ModelFeed | None, address: str, headers: Mapping[str, str]) -> bool:
        if feed is None:
            return pipe.name == address and not pipe.is_ondemand
        return any(join.feed is feed and matches(join, address, headers) for join in pipe.joins.values())

    def delete_message(self, pipe: ModelPipe, place: int) -> list[str]:
        """Delete a message and all older ones; return their URIs."""
        going, pipe.held = pipe.held[: place + 1], pipe.held[place + 1 :]
        for held in going:
            if held.feed is None:
                assert pipe.own.pop(0).number == held.number
            else:
                del held.feed.left[held.number], held.feed.holders[held.number]
        return [held.href for held in going]

    def delete_join(self, pipe: ModelPipe, path: str) -> None:
        """Delete a join; what has come over it stays in the pipe."""
        self._end_service(pipe.joins.pop(path).feed)

    def _end_service(self, feed: ModelFeed) -> None:
        if feed.type == "service" and not any(pipe.is_joined_to(feed) for pipe in self.pipes.values()):
            self.delete_feed(feed)

    def delete_feed(self, feed: ModelFeed) -> None:
        """Delete a feed with its joins; of a shared one all messages end with it."""
        del self.feeds[feed.name]
        feed.left.clear()
        feed.holders.clear()
        for pipe in self.pipes.values():
            pipe.joins = {path: join for path, join in pipe.joins.items() if join.feed is not feed}
            pipe.held = [held for held in pipe.held if held.feed is not feed]

    def delete_pipe(self, pipe: ModelPipe) -> None:
        """Delete a pipe: what it has of shared feeds goes back to them."""
        del self.pipes[pipe.name]
        self._let_go(pipe)
        for feed in {join.feed.name: join.feed for join in pipe.joins.values()}.values():
            self._end_service(feed)

    # What happens to it

    def _let_go(self, pipe: ModelPipe, feed: ModelFeed | None = None) -> None:
        """Take the URIs from messages of a pipe: all of them, or those of one feed."""
        for held in [held for held in pipe.held if feed is None or held.feed is feed]:
            pipe.held.remove(held)
            if held.feed is not None:
                del held.feed.holders[held.number]
                pipe.newest.pop(held.feed.name, None)

    def own_queue_crashed(self, pipe: ModelPipe) -> None:
        """What came from its own queue comes again; it keeps the rest."""
        pipe.held = [held for held in pipe.held if held.feed is not None]

    def shared_queue_crashed(self, feed: ModelFeed) -> None:
        """All that pipes have of a shared feed comes again, to any of them."""
        for pipe in self.pipes.values():
            self._let_go(pipe, feed)
            pipe.newest.pop(feed.name, None)

    def all_sleep(self) -> None:
        """The user's actor has crashed: everything comes again."""
        for pipe in self.pipes.values():
            self._let_go(pipe)
            pipe.newest.clear()

    def restart(self) -> None:
        """The broker was started anew: what is persistent comes again, and nothing else; nobody waits any more."""
        self.all_sleep()
        for pipe in self.pipes.values():
            pipe.own = [message for message in pipe.own if message.persistent]
            pipe.is_asked = False
        for feed in self.feeds.values():
            feed.left = {number: message for number, message in feed.left.items() if message.persistent}

    # What is seen of it

    def observe(self, pipe: ModelPipe, shown: Sequence[Shown]) -> None:
        """Compare what a pipe shows with what it may have, and learn which messages of shared feeds it got."""
        assert len(shown) <= (1 if pipe.is_ondemand else self.window)
        kept = [held.href for held in pipe.held]
        assert [each.href for each in shown[: len(kept)]] == kept, "URIs have gone, or changed their order"
        for href, number, marked in shown[len(kept) :]:
            feed = self._shared.get(number)
            if feed is None:
                place = pipe.own_held()
                assert place < len(pipe.own), f"{number} is there, and was deleted, or never posted here"
                assert pipe.own[place].number == number, f"{number} came before {pipe.own[place].number}"
                seen = pipe.seen
            else:
                self._learn(pipe, feed, number, marked)
                seen = feed.seen
            assert marked == (number in seen), f"{number} is {'' if marked else 'not '}marked"
            seen.add(number)
            pipe.held.append(Held(href, number, feed))

    def _learn(self, pipe: ModelPipe, feed: ModelFeed, number: int, marked: bool) -> None:
        assert number in feed.left, f"{number} is there, and was deleted"
        assert number not in feed.holders, f"{number} is in two pipes"
        assert pipe.is_joined_to(feed), f"{number} came, and there is no join"
        assert pipe.is_asked or not pipe.is_ondemand, f"{number} came, and nobody had asked"
        if not marked:
            assert number > pipe.newest.get(feed.name, 0), f"{number} came too late"
            pipe.newest[feed.name] = number
        feed.holders[number] = pipe

    def missing(self) -> Iterator[str]:
        """Say what has to come yet."""
        for pipe in self.pipes.values():
            if len(pipe.held) < self.window and not pipe.is_ondemand and pipe.own_held() < len(pipe.own):
                yield f"{pipe.name} has {pipe.own_held()} of {len(pipe.own)} messages of its own"
        for feed in self.feeds.values():
            if feed.left.keys() - feed.holders.keys():
                for pipe in self.pipes.values():
                    if pipe.is_joined_to(feed) and self._has_room(pipe):
                        yield f"{pipe.name} has room, and {feed.name} messages"

    def _has_room(self, pipe: ModelPipe) -> bool:
        return pipe.is_asked and not pipe.held if pipe.is_ondemand else len(pipe.held) < self.window

    def size(self, pipe: ModelPipe) -> int:
        """How many messages a pipe has, with a URI or not."""
        return len(pipe.held) + len(pipe.own) - pipe.own_held()
