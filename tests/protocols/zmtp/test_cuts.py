"""However a stream is cut into pieces, the same things happen."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.zmtp.wire import (
    GREETING,
    PLAIN_GREETING,
    command,
    happened,
    hello,
    initiate,
    message,
    pieces,
    ready,
    said,
    server,
)
from triomq.protocols.zmtp import (
    Event,
    LoginRequested,
    MessagesReceived,
    TopicCancelled,
    TopicSubscribed,
    ZMTPServerEngine,
)

_frame = st.binary(max_size=8) | st.integers(250, 600).map(bytes)
_messages = st.lists(_frame, min_size=1, max_size=5).map(lambda frames: message(*frames))
_traffic = st.lists(
    _messages
    | st.binary(max_size=20).map(lambda context: command(b"PING", b"\0\0" + context))
    | st.binary(max_size=300).map(lambda topic: command(b"SUBSCRIBE", topic))
    | st.sampled_from([command(name, topic) for name in (b"SUBSCRIBE", b"CANCEL") for topic in (b"", b"t")])
    | st.sampled_from([command(b"PONG"), command(b"WHAT", b"ever")]),
    max_size=12,
).map(b"".join)
_conversations = st.one_of(
    st.tuples(st.just("NULL"), st.builds(lambda traffic: GREETING + ready() + traffic, _traffic)),
    st.tuples(st.just("PLAIN"), st.builds(lambda traffic: PLAIN_GREETING + hello() + initiate() + traffic, _traffic)),
)
_spoilt = st.tuples(
    st.sampled_from(["NULL", "PLAIN"]),
    st.builds(lambda kept, noise: kept + noise, st.sampled_from([b"", GREETING, GREETING + ready()]), st.binary()),
)


def replayed(mechanism: str, kind: str, octets: list[bytes]) -> tuple[list[Event], bytes, str, int]:
    """Return what happens, with messages joined: in how many events they come depends on the pieces."""
    engine = server(mechanism=mechanism, socket_type=kind)
    events: list[Event] = []
    for piece in octets:
        engine.receive_data(piece)
        events += acted_upon(engine)
    joined: list[Event] = []
    for event in events:
        if isinstance(event, MessagesReceived) and joined and isinstance(joined[-1], MessagesReceived):
            joined[-1] = MessagesReceived(joined[-1].messages + event.messages)
        else:
            joined.append(event)
    return joined, said(engine), engine.state, engine.unfinished


def acted_upon(engine: ZMTPServerEngine) -> list[Event]:
    events: list[Event] = []
    while found := happened(engine):
        events += found
        for event in found:
            if isinstance(event, LoginRequested):
                engine.accept()
            elif isinstance(event, TopicSubscribed):
                engine.keep(event.topic)
            elif isinstance(event, TopicCancelled):
                engine.drop(event.topic)
    return events


@given(
    conversation=_conversations | _spoilt,
    kind=st.sampled_from(["ROUTER", "XPUB"]),
    sizes=st.lists(st.integers(1, 90), max_size=30),
)
def test_any_cut_of_a_stream_gives_the_same_messages(
    conversation: tuple[str, bytes], kind: str, sizes: list[int]
) -> None:
    mechanism, octets = conversation
    if kind == "XPUB":
        octets = octets.replace(b"DEALER", b"SUB").replace(b"\x25\x05READY", b"\x22\x05READY")
    whole = replayed(mechanism, kind, [octets] if octets else [])
    assert replayed(mechanism, kind, pieces(octets, sizes)) == whole
    assert replayed(mechanism, kind, pieces(octets, [1] * len(octets))) == whole
