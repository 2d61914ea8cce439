"""The whole engine: any split of the octets, any octets at all, time, and long conversations."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import (
    AMQPEngine,
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelClosed,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    Closed,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    DeliverRun,
    EndOfStream,
    Event,
    Failed,
    HeartbeatLost,
    Login,
    PublishRun,
    QueueDeclare,
    QueueDeclareOk,
    Received,
    Settings,
    plain,
)

from .wire import (
    HEADER,
    HEARTBEAT,
    OPENING,
    admit,
    body,
    consumer,
    content,
    exchange,
    flatten,
    frame,
    header,
    last,
    method,
    pair,
    running,
    sent,
    sent_methods,
)

TEXT = encode_properties(BasicProperties(content_type="text/plain", message_id="1234"))
TABLE = encode_properties(BasicProperties(headers={"a": 1, "b": {"c": [True, None]}}, delivery_mode=2))

# What a busy client sends: runs, contents of every shape, interleaved channels, and an ordered end.
CLIENT_WORDS = [
    content(1, BasicPublish("e", "k"), b"hello") * 4,
    content(1, BasicPublish("e", "k"), b"hello", TEXT) + content(1, BasicPublish("e", "k"), b"hell", TEXT),
    b"".join(content(1, BasicPublish("e", "k"), b"x" * size, TABLE) for size in (1, 1, 2, 0, 2)),
    content(1, BasicPublish("e", "other"), b"a long one", step=3),
    b"".join(method(2, BasicAck(tag)) for tag in range(1, 5)),
    method(2, BasicAck(9, multiple=True)) + method(2, BasicReject(10)),
    method(1, QueueDeclare("q", durable=True, arguments={"x-max-length": 5})),
    method(1, BasicPublish("e", "k")) + method(2, ConfirmSelect()) + header(1, 2) + HEARTBEAT + body(1, b"ab"),
]
CLOSE = method(0, ConnectionClose(200, "bye"))
CLOSING = method(2, ChannelClose(200, "bye")) + CLOSE
SERVER_WORDS = [
    b"".join(content(1, BasicDeliver("c", tag, False, "e", "k"), b"body") for tag in range(1, 5)),
    content(1, BasicDeliver("c", 5, True, "e", "k"), b"body", TEXT),
    content(1, BasicReturn(312, "NO_ROUTE", "e", "k"), b"back") + content(1, BasicGetOk(1, False, "e", "k"), b"got"),
    method(1, BasicConsumeOk("c")) + method(1, BasicAck(1)) + method(1, BasicAck(2)),
    content(1, BasicDeliver("c", 6, True, "e", "k"), b"a long one", step=4),
]


def client_stream(words: list[int], *, closing: bool = True) -> bytes:
    return b"".join(CLIENT_WORDS[word] for word in words) + (CLOSING if closing else b"")


def feed(engine: AMQPEngine, pieces: list[bytes]) -> tuple[list[object], bytes]:
    """Feed pieces, accepting logins; return all events, flattened, and all octets sent."""
    events: list[Event] = []
    octets: list[bytes] = []
    for piece in pieces:
        if piece:
            engine.receive_data(piece)
            events += admit(engine)
            octets.append(sent(engine))
    return flatten(events), b"".join(octets)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


places = st.lists(st.integers(0, 2**20), max_size=12)


@given(words=st.lists(st.integers(0, len(CLIENT_WORDS) - 1), max_size=6), places=places)
@example(words=list(range(len(CLIENT_WORDS))), places=[])
@example(words=list(range(len(CLIENT_WORDS))), places=list(range(10_000)))  # octet by octet
def test_any_split_of_what_a_client_sends_tells_the_same(words: list[int], places: list[int]) -> None:
    channels = method(1, ChannelOpen()) + method(2, ChannelOpen())
    data = OPENING + channels + client_stream(words)
    whole = feed(AMQPEngine("server", now=0.0), [data])
    assert feed(AMQPEngine("server", now=0.0), cut(data, places)) == whole
    assert whole[0][-1] == Closed(200, "bye", by_peer=True)


@given(words=st.lists(st.integers(0, len(SERVER_WORDS) - 1), max_size=6), places=places)
@example(words=list(range(len(SERVER_WORDS))), places=[])
def test_any_split_of_what_a_server_sends_tells_the_same(words: list[int], places: list[int]) -> None:
    data = b"".join(SERVER_WORDS[word] for word in words)
    assert feed(consumer(), cut(data, places)) == feed(consumer(), [data])


mutations = st.lists(
    st.tuples(st.integers(0, 2**20), st.sampled_from(["set", "insert", "delete", "copy"]), st.binary(max_size=6)),
    max_size=6,
)


def mutated(data: bytes, changes: list[tuple[int, str, bytes]]) -> bytes:
    octets = bytearray(data)
    for place, how, new in changes:
        at = place % (len(octets) + 1)
        if how == "set":
            octets[at : at + len(new)] = new
        elif how == "insert":
            octets[at:at] = new
        elif how == "delete":
            del octets[at : at + len(new)]
        else:
            octets[at:at] = octets[at : at + 60]
    return bytes(octets)


def ends_well(engine: AMQPEngine, pieces: list[bytes]) -> list[object]:
    """Feed anything; whatever it is, there are events and at most one end."""
    events, _ = feed(engine, pieces)
    ends = [event for event in events if isinstance(event, Failed | Closed)]
    assert len([event for event in ends if isinstance(event, Failed)]) <= 1
    assert len(ends) <= 2
    engine.receive_data(b"")
    engine.receive_data(b"more")
    engine.handle_timer(1e9)
    assert engine.outbox.finished
    assert engine.next_timer() is None
    return events


@given(data=st.binary(max_size=200), places=places)
def test_any_octets_from_the_first_on_are_survived(data: bytes, places: list[int]) -> None:
    ends_well(AMQPEngine("server", now=0.0), cut(data, places))
    ends_well(AMQPEngine("server", now=0.0), cut(HEADER + data, places))
    ends_well(AMQPEngine("client", now=0.0, settings=Settings(login=plain("u", "p"))), cut(data, places))


@given(data=st.binary(max_size=200), places=places)
def test_any_octets_on_an_open_channel_are_survived(data: bytes, places: list[int]) -> None:
    ends_well(running(channels=(1, 2)), cut(data, places))
    ends_well(consumer(), cut(data, places))


payloads = st.binary(max_size=30)
indices = st.sampled_from([(10, 50), (20, 10), (20, 40), (20, 41), (50, 10), (60, 40), (60, 80), (60, 60), (60, 120)])
any_frame = st.one_of(
    st.builds(frame, st.integers(0, 9), st.integers(0, 3), payloads),
    st.builds(
        lambda index, channel, rest: frame(1, channel, bytes((0, index[0], 0, index[1])) + rest),
        indices,
        st.integers(0, 3),
        payloads,
    ),
    st.builds(header, st.integers(0, 3), st.integers(0, 20), payloads.map(lambda octets: b"\0\0" + octets)),
    st.builds(body, st.integers(0, 3), payloads),
    st.sampled_from([*CLIENT_WORDS, *SERVER_WORDS]),
)


@given(frames=st.lists(any_frame, max_size=12), places=places)
def test_any_frames_are_survived_and_split_alike(frames: list[bytes], places: list[int]) -> None:
    data = b"".join(frames)
    for make in (lambda: running(channels=(1, 2)), consumer):
        whole = ends_well(make(), [data])
        assert ends_well(make(), cut(data, places)) == whole


@given(
    words=st.lists(st.integers(0, len(CLIENT_WORDS) - 1), max_size=4),
    changes=mutations,
    places=places,
)
def test_mutated_conversations_are_survived_and_split_alike(
    words: list[int], changes: list[tuple[int, str, bytes]], places: list[int]
) -> None:
    data = mutated(OPENING + method(1, ChannelOpen()) + method(2, ChannelOpen()) + client_stream(words), changes)
    whole = ends_well(AMQPEngine("server", now=0.0), [data])
    assert ends_well(AMQPEngine("server", now=0.0), cut(data, places)) == whole


@given(words=st.lists(st.integers(0, len(SERVER_WORDS) - 1), max_size=4), changes=mutations, places=places)
def test_mutated_answers_are_survived_and_split_alike(
    words: list[int], changes: list[tuple[int, str, bytes]], places: list[int]
) -> None:
    data = mutated(b"".join(SERVER_WORDS[word] for word in words), changes)
    whole = ends_well(consumer(), [data])
    assert ends_well(consumer(), cut(data, places)) == whole


# Conversations


def test_message_goes_all_the_way() -> None:
    client, server = pair()
    client.send_method(1, QueueDeclare("q"))
    assert exchange(client, server)[1] == [Received(1, QueueDeclare("q"))]
    server.send_method(1, QueueDeclareOk("q"))
    client.send_method(1, BasicConsume("q", "c"))
    client.send_content(1, BasicPublish("", "q"), TEXT, b"hello")
    seen, (consume, run) = exchange(client, server)
    assert seen == [Received(1, QueueDeclareOk("q"))]
    assert consume == Received(1, BasicConsume("q", "c"))
    assert isinstance(run, PublishRun)
    server.send_method(1, BasicConsumeOk("c"))
    server.send_deliveries(1, "c", 1, False, "", "q", run.framing, run.contents)
    _, deliver = exchange(client, server)[0]
    assert isinstance(deliver, DeliverRun)
    assert deliver.framing.body(deliver.contents[0]) == b"hello"
    assert deliver.framing.properties(deliver.contents[0]) == TEXT


def test_both_sides_close_a_channel_and_the_connection() -> None:
    client, server = pair(channels=2)
    client.close_channel(1, 200, "done")
    assert exchange(client, server)[1] == [ChannelClosed(1, 200, "done", by_peer=True)]
    server.send_method(1, ChannelCloseOk())
    assert exchange(client, server)[0] == [ChannelClosed(1, 200, "done", by_peer=False)]
    client.close(200, "bye")
    events = exchange(client, server)
    assert events == ([Closed(200, "bye", by_peer=False)], [Closed(200, "bye", by_peer=True)])
    assert client.outbox.finished
    assert server.outbox.finished


def test_requests_before_a_client_s_close_are_answered_before_it() -> None:
    server = running()
    server.receive_data(method(1, QueueDeclare("q")) + CLOSE + method(1, QueueDeclare("passed over")) + CLOSE)
    assert server.events() == [Received(1, QueueDeclare("q")), Closed(200, "bye", by_peer=True)]
    assert not server.outbox.finished
    server.send_method(1, QueueDeclareOk("q"))
    server.send_method(0, ConnectionCloseOk())
    assert sent_methods(server) == [(1, QueueDeclareOk("q")), (0, ConnectionCloseOk()), (0, ConnectionCloseOk())]
    assert server.outbox.finished


def test_refusal_that_closes_the_connection_crosses_the_client_s_close() -> None:
    server = running()
    server.receive_data(CLOSE)
    server.close(503, "unknown exchange type 'nope'", 40, 10)
    server.send_method(0, ConnectionCloseOk())
    close = ConnectionClose(503, "COMMAND_INVALID - unknown exchange type 'nope'", 40, 10)
    assert sent_methods(server) == [(0, close), (0, ConnectionCloseOk())]
    server.receive_data(method(0, ConnectionCloseOk()))
    assert last(server, Closed) == Closed(503, close.reply_text, by_peer=False)
    assert server.outbox.finished


@pytest.mark.parametrize("rest", [b"", HEARTBEAT, frame(1, 0, bytes(5000)), b"\xce" * 9], ids=len)
def test_further_closes_are_answered_until_what_comes_cannot_be_read(rest: bytes) -> None:
    server = running()
    server.receive_data(CLOSE)
    server.send_method(0, ConnectionCloseOk())
    server.receive_data(CLOSE[:5])
    server.receive_data(CLOSE[5:] + method(1, QueueDeclare("passed over")))
    assert sent_methods(server) == [(0, ConnectionCloseOk())] * 2
    server.receive_data(rest + CLOSE)
    assert sent_methods(server) == [(0, ConnectionCloseOk())] * (len(rest) <= len(HEARTBEAT))
    server.receive_data(b"")
    server.receive_data(CLOSE)
    assert sent(server) == b""
    assert server.events() == [Closed(200, "bye", by_peer=True)]


def test_client_that_hangs_up_behind_its_close_is_answered_for_it_may_still_read() -> None:
    server = running()
    server.receive_data(CLOSE)
    server.receive_data(b"")
    assert server.events() == [Closed(200, "bye", by_peer=True), EndOfStream()]
    server.send_method(0, ConnectionCloseOk())
    assert sent_methods(server) == [(0, ConnectionCloseOk())]
    assert server.outbox.finished


def test_commands_after_the_end_are_dropped() -> None:
    client, server = pair()
    client.send_content(1, BasicPublish(), b"\0\0", b"x")
    (run,) = exchange(client, server)[1]
    assert isinstance(run, PublishRun)
    server.close(320, "stop")
    server.data_to_send()
    server.send_method(1, BasicConsumeOk("c"))
    server.send_content(1, BasicGetOk(1, False, "", ""), b"\0\0", b"")
    server.send_deliveries(1, "c", 1, False, "", "", run.framing, run.contents)
    server.close_channel(1, 404, "no")
    server.close(541, "again")
    assert sent(server) == b""


def test_close_is_not_a_method_to_send() -> None:
    _, server = pair()
    with pytest.raises(LocalProtocolError, match="a command of its own"):
        server.send_method(0, ConnectionClose(200, ""))


# Time


@pytest.mark.parametrize("begun", [b"", HEADER[:7]], ids=["nothing", "all but its last octet"])
def test_header_is_due_within_five_seconds_then_ours_is_the_last_word(begun: bytes) -> None:
    server = AMQPEngine("server", now=1000.0)
    if begun:
        server.receive_data(begun)
    assert server.next_timer() == 1005.0
    server.handle_timer(1004.0)
    assert server.events() == []
    server.handle_timer(1005.0)
    assert server.events() == [
        Failed(320, "CONNECTION_FORCED - the handshake was not done in time, it is at waiting", 0, 0)
    ]
    assert sent(server) == HEADER
    assert server.outbox.finished


def test_client_without_an_answer_sends_no_more() -> None:
    client = AMQPEngine("client", now=1000.0)
    assert sent(client) == HEADER
    assert client.next_timer() == 1010.0
    client.handle_timer(1010.0)
    (failed,) = client.events()
    assert isinstance(failed, Failed)
    assert sent(client) == b""
    assert client.outbox.finished


def test_the_handshake_is_due_within_ten_seconds() -> None:
    server = AMQPEngine("server", now=1000.0)
    server.receive_data(HEADER)
    sent(server)
    assert server.next_timer() == 1010.0
    server.handle_timer(1010.0)
    (failed,) = server.events()
    assert isinstance(failed, Failed)
    assert [type(one) for _, one in sent_methods(server)] == [ConnectionClose]
    assert server.next_timer() == 1010.0  # the wait for close-ok is to be armed
    server.handle_timer(1010.0)
    assert server.next_timer() == 1015.0
    server.handle_timer(1015.0)
    assert server.outbox.finished


def test_open_connection_without_heartbeats_has_no_timer() -> None:
    assert running().next_timer() is None


def test_close_ok_is_due_within_five_seconds() -> None:
    server = running()
    server.close(200, "bye")
    server.handle_timer(50.0)
    assert server.next_timer() == 55.0
    server.handle_timer(55.0)
    assert server.events() == [Closed(200, "bye", by_peer=False)]
    assert server.outbox.finished


def beating(interval: int) -> tuple[AMQPEngine, AMQPEngine]:
    login = Login("PLAIN", b"\0u\0p")
    client, server = pair(Settings(heartbeat=interval), client_settings=Settings(login=login, heartbeat=interval))
    client.handle_timer(0.0)
    server.handle_timer(0.0)
    return client, server


def test_two_silent_sides_keep_each_other_alive() -> None:
    client, server = beating(1)
    now, heartbeats = 0.0, 0
    while now < 20:
        times = [client.next_timer(), server.next_timer()]
        now = min(moment for moment in times if moment is not None)
        client.handle_timer(now)
        server.handle_timer(now)
        if data := sent(server):
            assert data == HEARTBEAT
            heartbeats += 1
            client.receive_data(data)
        if data := sent(client):
            server.receive_data(data)
    assert client.events() == []
    assert server.events() == []
    assert 20 <= heartbeats <= 50


def test_peer_that_falls_silent_is_lost_after_two_intervals() -> None:
    _, server = beating(4)
    lost_at = 0.0
    while not server.outbox.finished:
        moment = server.next_timer()
        assert moment is not None
        lost_at = moment
        server.handle_timer(moment)
    assert server.events() == [HeartbeatLost()]
    assert 8.0 <= lost_at <= 9.0


def test_while_we_do_not_read_the_peer_cannot_be_lost() -> None:
    _, server = beating(4)
    server.reading_paused = True
    assert server.reading_paused
    for now in range(1, 100):
        server.handle_timer(float(now))
    assert server.events() == []


def test_deliveries_count_as_signs_of_life() -> None:
    _, server = beating(4)
    sent(server)
    for now in range(1, 20):
        server.send_method(1, BasicConsumeOk("c"))
        server.receive_data(HEARTBEAT)
        server.handle_timer(float(now))
        assert HEARTBEAT not in sent(server)


# Size


def chunks(data: bytes, size: int = 65536) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [65536, 131064, 131065, 20_000_000])
def test_large_bodies_pass_both_ways(size: int) -> None:
    client, server = pair()
    octets = bytes(range(256)) * (size // 256 + 1)
    octets = octets[:size]
    client.send_content(1, BasicPublish("", "q"), TEXT, octets)
    for piece in chunks(sent(client)):
        server.receive_data(piece)
    (run,) = server.events()
    assert isinstance(run, PublishRun)
    assert run.framing.body(run.contents[0]) == octets
    server.send_deliveries(1, "c", 1, False, "", "q", run.framing, run.contents)
    for piece in chunks(sent(server)):
        client.receive_data(piece)
    (deliver,) = client.events()
    assert isinstance(deliver, DeliverRun)
    assert deliver.framing.body(deliver.contents[0]) == octets
    assert deliver.framing.properties(deliver.contents[0]) == TEXT


def test_reading_a_large_body_takes_no_more_than_a_few_times_its_size() -> None:
    server = running()
    data = content(1, BasicPublish(), bytes(8_000_000))
    pieces = chunks(data)
    tracemalloc.start()
    for piece in pieces:
        server.receive_data(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(data)


def test_frame_octet_by_octet_is_stored_as_octets() -> None:
    server = running()
    data = content(1, BasicPublish(), bytes(50_000))
    tracemalloc.start()
    for start in range(len(data) - 1):
        server.receive_data(data[start : start + 1])
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 200_000
    server.receive_data(data[-1:])
    assert len(server.events()) == 1


def test_idle_engine_is_small() -> None:
    engines = [AMQPEngine("server", now=0.0) for _ in range(20)]
    tracemalloc.start()
    more = [AMQPEngine("server", now=0.0, settings=SHARED) for _ in range(100)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(engines) + len(more) == 120
    assert size / 100 < 4096


SHARED = Settings()


def test_the_end_of_the_stream_is_told_once() -> None:
    client, _ = pair()
    client.receive_data(b"")
    client.receive_data(b"")
    assert client.events() == [EndOfStream()]


def test_server_that_opens_a_channel_unasked_is_refused() -> None:
    client, _ = pair()
    client.receive_data(method(1, ChannelOpenOk()))
    (failed,) = client.events()
    assert isinstance(failed, Failed)
    assert failed.text == "CHANNEL_ERROR - unexpected 'channel.open-ok'"


@pytest.mark.parametrize("multiple", [False, True])
def test_ack_in_one_step_is_the_ack_that_a_method_is(multiple: bool) -> None:
    client, server = pair()
    server.send_method(1, BasicAck(1 << 40, multiple=multiple))
    expected = sent(server)
    server.send_ack(1, 1 << 40, multiple=multiple)
    assert sent(server) == expected
    with pytest.raises(LocalProtocolError, match="channel 2 is not open"):
        client.send_ack(2, 1, multiple=multiple)
    server.close(320, "enough")
    sent(server)
    server.send_ack(1, 1, multiple=multiple)
    assert sent(server) == b""
