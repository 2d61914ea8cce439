"""What is sent: contents cut to the peer's frames, deliveries as they came or framed anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import (
    AMQPEngine,
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    DeliverRun,
    Framing,
    Login,
    PublishRun,
    QueueDeclare,
    QueueDeclareOk,
    Settings,
    joined,
)
from triomq.protocols.amqp.outbox import LARGE, REMEMBERED

from .wire import consumer, content, exchange, flatten, frame_sizes, pair, published_runs, running, sent

PROPERTIES = encode_properties(BasicProperties(content_type="text/plain", headers={"a": 1}))


def published(octets: list[bytes], channel: int = 1, properties: bytes = PROPERTIES) -> PublishRun:
    """Have these bodies published, and give the run."""
    server = running(channels=(channel,))
    server.receive_data(b"".join(content(channel, BasicPublish("e", "k"), one, properties) for one in octets))
    (run,) = server.events()
    assert isinstance(run, PublishRun)
    return run


def delivered(run: PublishRun, server: AMQPEngine, client: AMQPEngine, channel: int = 1) -> list[object]:
    server.send_deliveries(channel, "ctag", 7, True, "e", "k", run.framing, run.contents)
    return flatten(exchange(client, server)[0])


def check(seen: list[object], bodies: list[bytes], properties: bytes = PROPERTIES, channel: int = 1) -> None:
    assert len(seen) == len(bodies)
    for number, (one, octets) in enumerate(zip(seen, bodies, strict=True)):
        assert isinstance(one, tuple)
        where, method, framing, received = one
        assert (where, method) == (channel, BasicDeliver("ctag", 7 + number, True, "e", "k"))
        assert framing.body(received) == octets
        assert framing.properties(received) == properties


def test_contents_go_out_as_they_came() -> None:
    client, server = pair()
    bodies = [b"one", b"two", b"six"]
    run = published(bodies)
    server.send_deliveries(1, "ctag", 7, True, "e", "k", run.framing, run.contents)
    octets = sent(server)
    for one in run.contents:
        assert one in octets
    client.receive_data(octets)
    check(flatten(client.events()), bodies)


@pytest.mark.parametrize("bodies", [[b"one", b"two"], [b""], [b"", b""], [b"x" * LARGE, b"y" * LARGE]])
def test_contents_of_another_channel_are_renumbered(bodies: list[bytes]) -> None:
    client, server = pair(channels=3)
    check(delivered(published(bodies, channel=9), server, client, channel=3), bodies, channel=3)


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 20_000])
def test_contents_are_framed_anew_for_a_peer_with_small_frames(size: int) -> None:
    client, server = pair(Settings(frame_max=4096))
    bodies = [bytes(size), b"x" * size]
    check(delivered(published(bodies), server, client), bodies)


@pytest.mark.parametrize("size", [0, 5, 200_000])
def test_joined_contents_are_framed(size: int) -> None:
    client, server = pair()
    bodies = [b"z" * size]
    server.send_deliveries(1, "ctag", 7, True, "e", "k", joined(PROPERTIES), [PROPERTIES + bodies[0]])
    check(flatten(exchange(client, server)[0]), bodies)


def test_large_content_is_handed_out_without_a_copy() -> None:
    _, server = pair()
    run = published([b"x" * LARGE])
    server.send_deliveries(1, "ctag", 7, True, "e", "k", run.framing, run.contents)
    assert any(piece is run.contents[0] for piece in server.data_to_send())


def test_no_contents_are_no_octets() -> None:
    _, server = pair()
    server.send_deliveries(1, "ctag", 7, True, "e", "k", Framing(1, 0, 0, 0, 0, 0), [])
    assert sent(server) == b""


def test_unsent_counts_what_waits() -> None:
    _, server = pair(Settings(frame_max=4096))
    assert server.outbox.unsent == 0
    run = published([bytes(10_000), bytes(10)])
    server.send_deliveries(1, "ctag", 7, True, "e", "k", run.framing, run.contents)
    server.send_content(1, BasicGetOk(1, False, "e", "k"), PROPERTIES, bytes(50_000))
    waiting = server.outbox.unsent
    assert waiting == sum(map(len, server.data_to_send()))
    assert server.outbox.unsent == 0


def test_every_frame_fits_the_peer() -> None:
    client, server = pair(Settings(frame_max=4096))
    server.send_content(1, BasicGetOk(1, False, "e", "k"), PROPERTIES, bytes(50_000))
    assert max(frame_sizes(sent(server))) <= 4096
    assert client.frame_max == 4096


def test_properties_that_fit_no_frame_are_refused_to_a_publisher_before_anything_is_queued() -> None:
    client, _ = pair(Settings(frame_max=4096))
    large = encode_properties(BasicProperties(headers={"h": "x" * 5000}))
    with pytest.raises(LocalProtocolError, match="properties of 50"):
        client.send_content(1, BasicPublish("e", "k"), large, b"")
    with pytest.raises(LocalProtocolError, match="properties of 50"):
        client.send_publish(1, "e", "k", False, large, b"")
    assert client.outbox.unsent == 0


def test_properties_of_others_are_delivered_whole_where_they_fit_no_frame() -> None:
    _, server = pair(Settings(frame_max=4096))
    large = encode_properties(BasicProperties(headers={"h": "x" * 5000}))
    run = published([b"x"], properties=large)
    server.send_deliveries(1, "ctag", 7, True, "e", "k", run.framing, run.contents)
    server.send_content(1, BasicGetOk(1, False, "e", "k"), large, b"x")
    assert [size > 4096 for size in frame_sizes(sent(server))] == [False, True, False] * 2


def test_method_that_fits_no_frame_is_refused() -> None:
    client, server = pair(Settings(frame_max=4096))
    with pytest.raises(LocalProtocolError, match="does not fit into the agreed frames"):
        client.send_method(1, QueueDeclare("q", arguments={"a": "x" * 5000}))
    server.send_method(1, QueueDeclareOk("q"))
    assert server.outbox.unsent > 0


def test_deliver_frames_are_remembered_within_a_bound() -> None:
    _, server = pair()
    run = published([b"x"])
    for number in range(REMEMBERED * 2):
        server.send_deliveries(1, f"c{number}", 1, False, "e", "k", run.framing, run.contents)
    assert len(server._core.outbox._deliver_frames) <= REMEMBERED


def test_names_that_are_not_utf_8_go_out_as_they_came_in() -> None:
    client, server = pair()
    run = published([b"x"])
    server.send_deliveries(1, "c", 1, False, "\udcff", "k", run.framing, run.contents)
    octets = sent(server)
    assert b"\x01\xff\x01k" in octets
    client.receive_data(octets)
    (event,) = client.events()
    assert isinstance(event, DeliverRun)
    assert event.method.exchange == "\udcff"


@given(
    bodies=st.lists(st.binary(max_size=300) | st.integers(0, 9000).map(bytes), min_size=1, max_size=5),
    frame_max=st.sampled_from([4096, 8192, 131072]),
    source=st.sampled_from([1, 2]),
)
def test_published_message_is_delivered_whatever_it_is(bodies: list[bytes], frame_max: int, source: int) -> None:
    publisher = running(channels=(source,))
    publisher.receive_data(b"".join(content(source, BasicPublish("e", "k"), one, PROPERTIES) for one in bodies))
    client, server = pair(Settings(frame_max=frame_max))
    seen: list[object] = []
    tag = 7
    for run in published_runs(publisher.events()):
        server.send_deliveries(1, "ctag", tag, True, "e", "k", run.framing, run.contents)
        tag += len(run.contents)
        seen += flatten(exchange(client, server)[0])
    check(seen, bodies)


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 4088, 4089, LARGE - 1, LARGE, 2 * LARGE + 1]), st.booleans())),
    st.sampled_from([4096, 131072]),
)
def test_publish_is_what_the_general_way_would_send(publishes: list[tuple[int, bool]], frame_max: int) -> None:
    settings = Settings(frame_max=frame_max, login=Login("PLAIN", b"\0guest\0guest"))
    one, other = consumer(settings), consumer(settings)
    for size, mandatory in publishes:
        one.send_publish(1, "e", "k", mandatory, PROPERTIES, b"x" * size)
        other.send_content(1, BasicPublish("e", "k", mandatory=mandatory), PROPERTIES, b"x" * size)
        assert one.outbox.unsent == other.outbox.unsent
    assert sent(one) == sent(other)


def test_publish_frames_are_remembered_within_a_bound() -> None:
    client = consumer()
    for number in range(2 * REMEMBERED):
        client.send_publish(1, "e", f"k{number}", False, PROPERTIES, b"x")
    assert len(client._core.outbox._publish_frames) <= REMEMBERED
    client.data_to_send()
    assert client.send_publish(1, "", "k", False, b"\0\0", b"body") == client.outbox.unsent


def test_publish_that_cannot_be_sent_is_refused_before_anything_is_queued() -> None:
    client = consumer()
    for arguments in ((2, "e", "k"), (1, "e" * 256, "k"), (1, "e", "k" * 256)):
        with pytest.raises(LocalProtocolError):
            client.send_publish(*arguments, False, PROPERTIES, b"x")
    with pytest.raises(LocalProtocolError, match="do not fit into frames"):
        client.send_publish(1, "e", "k", False, bytes(200_000), b"x")
    with pytest.raises(LocalProtocolError, match="client's command"):
        running(channels=(1,)).send_publish(1, "e", "k", False, PROPERTIES, b"x")
    assert not client.outbox.unsent


MESSAGES = st.tuples(
    st.text(max_size=5),
    st.builds(BasicProperties, message_id=st.none() | st.text(max_size=9)).map(encode_properties),
    st.binary(max_size=300) | st.sampled_from([0, 4088, 4089, 9000, LARGE]).map(bytes),
    st.booleans(),
)


@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=5),
    frame_max=st.sampled_from([4096, 131072]),
    sources=st.sampled_from([(1, 1), (2, 2), (1, 2)]),
    is_joined=st.booleans(),
)
def test_messages_that_are_not_alike_are_delivered_together_whatever_they_are(
    messages: list[tuple[str, bytes, bytes, bool]], frame_max: int, sources: tuple[int, int], is_joined: bool
) -> None:
    client, server = pair(Settings(frame_max=frame_max))
    fronts, contents = [], []
    for key, properties, octets, source in messages:
        run = published([octets], sources[source], properties)
        framing, received = run.framing, run.contents[0]
        if is_joined and source:
            framing, received = joined(properties), properties + octets
        fronts.append(server.outbox.front(1, "ctag", True, "e", key, framing))
        contents.append(received)
    server.send_mixed_deliveries(1, 7, fronts, contents)
    assert server.outbox.unsent == sum(map(len, server.outbox._pieces))
    seen = flatten(exchange(client, server)[0])
    assert len(seen) == len(messages)
    for tag, (one, (key, properties, octets, _)) in enumerate(zip(seen, messages, strict=True), 7):
        assert isinstance(one, tuple)
        channel, method, framing, received = one
        assert (channel, method) == (1, BasicDeliver("ctag", tag, True, "e", key))
        assert (framing.properties(received), framing.body(received)) == (properties, octets)


def test_messages_of_which_one_fits_no_frame_are_all_delivered() -> None:
    _, server = pair(Settings(frame_max=4096))
    large = encode_properties(BasicProperties(headers={"h": "x" * 5000}))
    runs = [published([b"x"]), published([b"x"], properties=large)]
    fronts = [server.outbox.front(1, "ctag", True, "e", "k", run.framing) for run in runs]
    server.send_mixed_deliveries(1, 7, fronts, [run.contents[0] for run in runs])
    assert [size > 4096 for size in frame_sizes(sent(server))] == [False, False, False, False, True, False]


def test_large_contents_that_are_not_alike_are_handed_out_without_a_copy() -> None:
    _, server = pair()
    run = published([b"x" * LARGE, b"y" * LARGE])
    fronts = [server.outbox.front(1, "ctag", True, "e", key, run.framing) for key in ("a", "b")]
    server.send_mixed_deliveries(1, 7, fronts, run.contents)
    pieces = server.data_to_send()
    assert all(any(piece is one for piece in pieces) for one in run.contents)
