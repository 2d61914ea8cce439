"""Reading messages by their form: pairs of sockets in memory, with several peers of one ROUTER."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
import zmq
from hypothesis import example, given
from hypothesis import strategies as st

from triomq.transports.zmq import Frames, MessageForm, Received
from triomq.transports.zmq.reading import MOST_FRAMES, receive_all, receive_by_form

FORM = MessageForm((b"", b"1.0"), 4, {b"LONG": 7, b"SHORT": 4})

PEERS = (b"one", b"two", b"three")


class Sockets:
    """A ROUTER and its peers; what one sends is there at once."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.bind("inproc://here")
        self.peers = {name: self._connect(name) for name in PEERS}
        for peer in self.peers.values():
            peer.send(b"hello")
            self.router.recv_multipart()
        self.dealer, self.far_end = self.context.socket(zmq.DEALER), self.context.socket(zmq.DEALER)
        self.dealer.bind("inproc://one")
        self.far_end.connect("inproc://one")

    def _connect(self, name: bytes) -> zmq.Socket[bytes]:
        peer = self.context.socket(zmq.DEALER)
        peer.identity = name
        peer.connect("inproc://here")
        return peer

    def send(self, messages: list[tuple[bytes, Frames]]) -> None:
        for name, frames in messages:
            self.peers[name].send_multipart(frames)

    def read(self, form: MessageForm | None) -> Received:
        found: Received = {}
        with suppress(zmq.Again):
            while True:
                if form is None:
                    receive_all(self.router, found, asks_users=False)
                else:
                    receive_by_form(self.router, found, form)
        return found

    def read_from_one(self, messages: list[Frames]) -> list[Frames]:
        """Read what a socket with one peer is sent."""
        for frames in messages:
            self.far_end.send_multipart(frames)
        found: Received = {}
        with suppress(zmq.Again):
            while True:
                receive_by_form(self.dealer, found, FORM, has_identities=False)
        return found.get((b"", ""), [])


@pytest.fixture(scope="module")
def sockets() -> Iterator[Sockets]:
    made = Sockets()
    yield made
    made.context.destroy(0)


def message(*rest: bytes) -> Frames:
    return [b"", b"1.0", *rest]


names = st.sampled_from(PEERS)
text = st.sampled_from([b"", b"a", b"1.0", b"one", b"LONG", b"{}"])

in_form = st.one_of(
    st.builds(lambda *rest: message(b"LONG", b"id", *rest), st.sampled_from([b"q", b""]), text, st.just(b"{}")),
    st.builds(lambda *rest: message(b"LONG", b"id", b"q", b"h", b"{}", *rest), st.just(b"X")),
    st.builds(lambda *rest: message(b"SHORT", b"id", *rest)),
    st.builds(lambda *rest: message(b"SHORT", b"id", *rest), st.just(b"5")),
    st.builds(lambda rest: message(b"OTHER", b"id", *rest), st.lists(st.sampled_from([b"a", b"{}"]), max_size=5)),
    # Shorter than its form, and yet long enough to be one.
    st.builds(lambda rest: message(b"LONG", b"id", *rest), st.lists(st.sampled_from([b"a", b"{}"]), max_size=2)),
)

broken = st.one_of(
    st.lists(st.sampled_from([b"", b"x", b"LONG", b"SHORT"]), min_size=1, max_size=8),
    st.builds(lambda rest: message(*rest), st.lists(st.sampled_from([b"LONG", b"SHORT", b"a"]), max_size=1)),
)


@given(messages=st.lists(st.tuples(names, in_form), max_size=12))
@example(messages=[(b"one", message(b"LONG", b"id")), (b"two", message(b"SHORT", b"id"))])
@example(messages=[(b"one", message(b"LONG", b"id", b"q", b"", b"1.0", b"{}"))])
def test_messages_are_the_same_as_if_each_frame_was_asked(
    sockets: Sockets, messages: list[tuple[bytes, Frames]]
) -> None:
    sockets.send(messages)
    asked = sockets.read(None)
    sockets.send(messages)
    assert sockets.read(FORM) == asked


@given(messages=st.lists(in_form, max_size=12))
@example(messages=[message(b"LONG", b"id"), message(b"SHORT", b"id")])
def test_messages_of_one_peer_are_the_same_as_if_each_frame_was_asked(sockets: Sockets, messages: list[Frames]) -> None:
    assert sockets.read_from_one(messages) == messages


@given(messages=st.lists(st.tuples(names, st.booleans()), max_size=12), spoilt=st.lists(broken, min_size=1))
def test_what_is_no_message_costs_no_other_peer_one_of_its_own(
    sockets: Sockets, messages: list[tuple[bytes, bool]], spoilt: list[Frames]
) -> None:
    good = [message(b"LONG", b"id", b"q", b"h", b"{}"), message(b"SHORT", b"id")]
    sent: list[tuple[bytes, Frames]] = []
    for number, (name, is_long) in enumerate(messages):
        sent += [(b"three", spoilt[number % len(spoilt)]), (name, good[not is_long])]
    sockets.send(sent)
    found = sockets.read(FORM)
    for name in (b"one", b"two"):
        assert found.get((name, ""), []) == [frames for whose, frames in sent if whose == name]


def test_series_ends_when_it_has_brought_much(sockets: Sockets) -> None:
    large = message(b"LONG", b"id", b"q", b"h", bytes(100_000))
    sockets.send([(b"one", large)] * 5)
    found: Received = {}
    receive_by_form(sockets.router, found, FORM)
    assert len(found[b"one", ""]) == 3
    assert len(sockets.read(FORM)[b"one", ""]) == 2


@pytest.mark.parametrize("form", [None, FORM])
def test_message_of_very_many_frames_is_cut_and_its_rest_dropped_in_series(
    sockets: Sockets, form: MessageForm | None
) -> None:
    short = message(b"SHORT", b"id")
    sockets.send([(b"one", message(b"OTHER", *[b"x"] * 10_000)), (b"one", short), (b"two", short)])
    series: list[Received] = []
    with suppress(zmq.Again):
        while True:
            series.append({})
            if form is None:
                receive_all(sockets.router, series[-1], asks_users=False)
            else:
                receive_by_form(sockets.router, series[-1], form)
    ((cut,),) = series[0].values()
    assert len(cut) == MOST_FRAMES
    assert series[1] == {}  # a second one has to drop the rest as well
    assert [found for found in series[2:] if found] == [{(b"one", ""): [short], (b"two", ""): [short]}]
