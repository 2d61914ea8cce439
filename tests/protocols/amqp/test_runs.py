"""Runs: what is put into one event, what cuts it, and that the fast readers and the general one agree."""

from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import (
    AckRun,
    BasicAck,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelClose,
    DeliverRun,
    Failed,
    PublishMix,
    PublishRun,
    Received,
)
from triomq.protocols.amqp.kinds import METHODS_REMEMBERED

from .wire import body, consumer, content, flatten, header, last, method, running

PUBLISH = BasicPublish("e", "k")


def runs(data: bytes) -> list[PublishRun]:
    events = _events(data)
    assert all(isinstance(event, PublishRun) for event in events)
    return [event for event in events if isinstance(event, PublishRun)]


def mix(data: bytes) -> list[PublishRun]:
    (event,) = _events(data)
    assert isinstance(event, PublishMix)
    assert event.size == sum(map(len, event.contents))
    return event.runs()


def _events(data: bytes) -> list[object]:
    server = running(channels=(1, 2))
    server.receive_data(data)
    return list(server.events())


def test_publishes_alike_are_one_run() -> None:
    (run,) = runs(b"".join(content(1, PUBLISH, b"%03d" % number) for number in range(500)))
    assert run.channel == 1
    assert run.method == PUBLISH
    assert [run.framing.body(octets) for octets in run.contents] == [b"%03d" % number for number in range(500)]
    assert run.size == sum(map(len, run.contents))


def test_bodies_of_other_sizes_stay_in_the_run() -> None:
    (run,) = runs(b"".join(content(1, PUBLISH, bytes(size)) for size in (5, 5, 7, 100, 1)))
    assert [len(run.framing.body(octets)) for octets in run.contents] == [5, 5, 7, 100, 1]


def test_properties_of_the_same_length_stay_in_the_run() -> None:
    properties = [encode_properties(BasicProperties(message_id=f"{number:04}")) for number in range(20)]
    (run,) = runs(b"".join(content(1, PUBLISH, b"x", one) for one in properties))
    assert [run.framing.properties(octets) for octets in run.contents] == properties


def test_header_tables_of_the_same_length_stay_in_the_run() -> None:
    properties = [encode_properties(BasicProperties(headers={"n": number}, type="t")) for number in range(20)]
    (run,) = runs(b"".join(content(1, PUBLISH, b"x", one) for one in properties * 2))
    assert [run.framing.properties(octets) for octets in run.contents] == properties * 2


def test_header_table_that_repeats_is_read_with_other_properties_around_it() -> None:
    properties = [encode_properties(BasicProperties(headers={"n": 1}, message_id="m" * size)) for size in (1, 2, 2, 3)]
    found = mix(b"".join(content(1, PUBLISH, b"x", one) for one in properties))
    assert [run.framing.properties(octets) for run in found for octets in run.contents] == properties


def test_another_shape_makes_a_mix() -> None:
    one, two = (encode_properties(BasicProperties(message_id=text)) for text in ("a", "bb"))
    three = encode_properties(BasicProperties(type="c"))
    found = mix(b"".join(content(1, PUBLISH, b"x", properties) for properties in (one, one, two, three, three)))
    assert [len(run.contents) for run in found] == [2, 1, 2]
    assert [run.framing.flags for run in found] == [0x0080, 0x0080, 0x0020]


def test_empty_body_has_a_shape_of_its_own() -> None:
    found = mix(content(1, PUBLISH, b"x") + content(1, PUBLISH, b"") * 2 + content(1, PUBLISH, b"y"))
    assert [len(run.contents) for run in found] == [1, 2, 1]
    assert found[0].framing is found[2].framing


def test_another_method_frame_makes_a_mix() -> None:
    found = mix(content(1, PUBLISH, b"x") * 2 + content(1, BasicPublish("e", "other"), b"x"))
    assert [run.method.routing_key for run in found] == ["k", "other"]


def test_another_channel_cuts_the_run() -> None:
    found = runs(content(1, PUBLISH, b"x") * 2 + content(2, PUBLISH, b"x") * 3 + content(1, PUBLISH, b"x"))
    assert [(run.channel, len(run.contents)) for run in found] == [(1, 2), (2, 3), (1, 1)]
    assert found[0].method is found[1].method is found[2].method
    assert found[0].framing is found[2].framing is not found[1].framing


def test_any_other_method_cuts_the_run() -> None:
    events = _events(content(1, PUBLISH, b"x") * 2 + method(1, BasicQos(0, 5)) + content(1, PUBLISH, b"x"))
    assert [type(event) for event in events] == [PublishRun, Received, PublishRun]


def test_the_same_frame_is_the_same_object_from_chunk_to_chunk() -> None:
    server = running()
    found = []
    for _ in range(3):
        server.receive_data(content(1, PUBLISH, b"x"))
        found.append(last(server, PublishRun))
    assert found[0].method is found[1].method is found[2].method
    assert found[0].framing is found[1].framing is found[2].framing


def test_method_frames_are_remembered_within_a_bound() -> None:
    server = running()
    for number in range(METHODS_REMEMBERED + 100):
        server.receive_data(content(1, BasicPublish("e", str(number)), b"x"))
    assert len(server.events()) == METHODS_REMEMBERED + 100
    assert len(server._channels._cache.known) <= METHODS_REMEMBERED


def test_interleaved_channels_are_told_apart() -> None:
    events = _events(
        method(1, PUBLISH)
        + method(2, BasicPublish("e", "two"))
        + header(2, 2)
        + header(1, 4)
        + body(1, b"on")
        + body(2, b"22")
        + body(1, b"e!")
    )
    two, one = (event for event in events if isinstance(event, PublishRun))
    assert (two.channel, two.framing.body(two.contents[0])) == (2, b"22")
    assert (one.channel, one.framing.channel, one.framing.body(one.contents[0])) == (1, 0, b"one!")


def test_publish_in_a_run_is_checked_like_any_other() -> None:
    good = content(1, PUBLISH, b"abc")
    for at, wrong in (
        (-1, b"\xcd"),  # the end of the body frame
        (len(good) - 12, b"\x00"),  # the end of the header frame
        (len(good) - 11, b"\x07"),  # the body frame's type
        (len(good) - 9, b"\x09"),  # the body frame's channel
        (len(good) - 5, b"\x04"),  # the body frame's size
    ):
        at %= len(good)
        events = _events(good * 3 + good[:at] + wrong + good[at + 1 :] + good)
        assert len(flatten(events[:1])) == 3  # type: ignore[arg-type]  # they are events
        assert any(isinstance(event, Failed) for event in events), (at, wrong)


def test_bad_property_in_a_run_is_found() -> None:
    good = [encode_properties(BasicProperties(message_id=f"{number}")) for number in range(3)]
    stream = b"".join(content(1, PUBLISH, b"x", one) for one in good)
    bad = good[0][:2] + b"\x09" + good[0][3:]
    events = _events(stream + content(1, PUBLISH, b"x", bad))
    assert [type(event) for event in events] == [PublishRun, Failed]


def test_bad_header_table_in_a_run_is_found() -> None:
    good = encode_properties(BasicProperties(headers={"n": 1}))
    events = _events(content(1, PUBLISH, b"x", good) * 2 + content(1, PUBLISH, b"x", good.replace(b"I", b"Q")))
    assert [type(event) for event in events] == [PublishRun, Failed]


def test_acks_of_one_channel_are_one_run() -> None:
    data = b"".join(method(1, BasicAck(tag)) for tag in range(1, 1001))
    assert _events(data + method(2, BasicAck(1))) == [AckRun(1, list(range(1, 1001))), AckRun(2, [1])]


def test_ack_with_bits_that_mean_nothing_is_an_ack() -> None:
    data = bytearray(method(1, BasicAck(7)))
    data[-2] = 0x82
    assert _events(bytes(data)) == [AckRun(1, [7])]


def test_ack_with_a_broken_end_is_found() -> None:
    data = method(1, BasicAck(1)) * 3
    events = _events(data[:-1] + b"\0")
    assert events[0] == AckRun(1, [1, 1])
    assert isinstance(events[1], Failed)


def test_publish_behind_a_close_is_not_read_as_a_run() -> None:
    events = _events(content(1, PUBLISH, b"x") + method(1, ChannelClose(200, "")) + content(1, PUBLISH, b"x"))
    assert [type(event).__name__ for event in events] == ["PublishRun", "ChannelClosed", "Failed"]


def deliver(tag: int, *, redelivered: bool = False, key: str = "k") -> BasicDeliver:
    return BasicDeliver("consumer", tag, redelivered, "e", key)


def test_deliveries_that_differ_in_tag_and_body_are_one_run() -> None:
    client = consumer()
    client.receive_data(b"".join(content(1, deliver(tag), b"%03d" % tag) for tag in range(1, 300)))
    (run,) = client.events()
    assert isinstance(run, DeliverRun)
    assert run.tags == list(range(1, 300))
    assert run.method == deliver(1)
    assert [run.framing.body(octets) for octets in run.contents] == [b"%03d" % tag for tag in range(1, 300)]


def test_delivery_of_another_kind_cuts_the_run() -> None:
    client = consumer()
    kinds = [deliver(1), deliver(2), deliver(3, redelivered=True), deliver(4, key="other"), deliver(5, key="other")]
    client.receive_data(b"".join(content(1, one, b"x") for one in kinds) + content(1, deliver(6, key="other"), b""))
    found = [event for event in client.events() if isinstance(event, DeliverRun)]
    assert [run.tags for run in found] == [[1, 2], [3], [4, 5], [6]]
    assert [run.method for run in found] == [kinds[0], kinds[2], kinds[3], deliver(6, key="other")]


def test_deliveries_of_other_sizes_stay_in_the_run() -> None:
    client = consumer()
    client.receive_data(b"".join(content(1, deliver(tag), bytes(tag)) for tag in (3, 3, 9, 1)))
    (run,) = client.events()
    assert isinstance(run, DeliverRun)
    assert [len(run.framing.body(octets)) for octets in run.contents] == [3, 3, 9, 1]


def test_broken_delivery_is_found() -> None:
    client = consumer()
    good = content(1, deliver(1), b"x")
    client.receive_data(good * 2 + good[:-1] + b"\0")
    run, failed = client.events()
    assert isinstance(run, DeliverRun)
    assert run.tags == [1, 1]
    assert isinstance(failed, Failed)


def test_delivery_with_a_broken_consumer_tag_is_found() -> None:
    client = consumer()
    good = method(1, deliver(1))
    client.receive_data(good[:11] + b"\xff" + good[12:] + header(1, 0))
    failed = last(client, Failed)
    assert failed.code == 501


def test_method_frame_too_short_for_a_method_is_found() -> None:
    client = consumer()
    client.receive_data(b"\x01\0\1\0\0\0\0" + content(1, deliver(1), b"x")[7:])
    failed = last(client, Failed)
    assert failed.text == "FRAME_ERROR - type 1, all octets = <<>>: {invalid_frame_end_marker,0}"


def test_confirms_are_runs_too() -> None:
    client = consumer()
    client.receive_data(b"".join(method(1, BasicAck(tag)) for tag in (1, 2, 3)))
    assert client.events() == [AckRun(1, [1, 2, 3])]
