"""Shapes: they take nothing that the general way refuses, whatever differs and however the stream is cut."""

from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import AMQPEngine, BasicDeliver, BasicPublish, Failed, PublishMix, PublishRun
from triomq.protocols.amqp.shapes import PATIENCE, SHAPES

from .wire import consumer, content, flatten, running

METHODS = [BasicPublish("e", "k"), BasicPublish("e", "other"), BasicPublish("", "k", mandatory=True), BasicPublish()]
PROPERTIES = [
    lambda number: BasicProperties(message_id=f"{number:04}", timestamp=number),
    lambda number: BasicProperties(headers={"trace": f"{number:08}", "n": number}, delivery_mode=2),
    lambda number: BasicProperties(headers={"a": {"b": [number, "x"]}}, content_type="text/plain"),
    lambda number: BasicProperties(headers={"trace": "x" * (number % 3)}),
    lambda number: BasicProperties(),
]
SPOILT = st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), max_size=3)
MESSAGES = st.lists(
    st.tuples(st.sampled_from(METHODS), st.sampled_from(PROPERTIES), st.sampled_from([0, 1, 5, 5, 5, 40]), SPOILT),
    min_size=1,
    max_size=30,
)


def octets_of(messages: list[tuple[BasicPublish, object, int, list[tuple[int, int]]]]) -> list[bytes]:
    """Encode publishes, and spoil some octets of them."""
    found = []
    for number, (method, properties, size, spoilt) in enumerate(messages):
        octets = bytearray(content(1, method, bytes(size), encode_properties(properties(number))))  # type: ignore[operator]
        for place, octet in spoilt:
            octets[place % len(octets)] = octet
        found.append(bytes(octets))
    return found


def seen_of(server: AMQPEngine) -> tuple[list[object], bytes]:
    return flatten(server.events()), b"".join(server.data_to_send())


def read_generally(octets: bytes) -> tuple[list[object], bytes]:
    """Read one octet after another, so that no publish is ever whole in a chunk."""
    server = running(channels=(1, 2))
    for place in range(len(octets)):
        server.receive_data(octets[place : place + 1])
    return seen_of(server)


@given(messages=MESSAGES, cuts=st.lists(st.integers(0, 3_000), max_size=5))
def test_any_cutting_gives_the_same_publishes_in_the_same_order(
    messages: list[tuple[BasicPublish, object, int, list[tuple[int, int]]]], cuts: list[int]
) -> None:
    octets = b"".join(octets_of(messages))
    expected = read_generally(octets)
    for places in ([], sorted({cut % len(octets) for cut in cuts} - {0})):
        server = running(channels=(1, 2))
        for start, stop in zip([0, *places], [*places, len(octets)], strict=True):
            server.receive_data(octets[start:stop])
        assert seen_of(server) == expected


@given(kind=st.sampled_from(PROPERTIES), size=st.sampled_from([1, 5]), spoilt=SPOILT, before=st.integers(0, 4))
def test_publish_like_many_before_it_is_checked_as_if_it_was_the_first(
    kind: object, size: int, spoilt: list[tuple[int, int]], before: int
) -> None:
    good = octets_of([(METHODS[0], kind, size, [])] * 4)
    (bad,) = octets_of([(METHODS[0], kind, size, spoilt)])
    octets = b"".join((*good[:before], bad, *good))
    server = running(channels=(1, 2))
    server.receive_data(octets)
    assert seen_of(server) == read_generally(octets)


@given(messages=MESSAGES, cut=st.integers(1, 3_000))
def test_deliveries_are_the_same_however_they_are_cut(
    messages: list[tuple[BasicPublish, object, int, list[tuple[int, int]]]], cut: int
) -> None:
    octets = bytearray()
    for tag, (method, properties, size, spoilt) in enumerate(messages, 1):
        deliver = BasicDeliver("consumer", tag, method.mandatory, "e", method.routing_key)
        one = bytearray(content(1, deliver, bytes(size), encode_properties(properties(tag))))  # type: ignore[operator]
        for place, octet in spoilt:
            one[place % len(one)] = octet
        octets += one
    singly, at_once, in_parts = consumer(), consumer(), consumer()
    for place in range(len(octets)):
        singly.receive_data(bytes(octets[place : place + 1]))
    at_once.receive_data(bytes(octets))
    for start in range(0, len(octets), cut):
        in_parts.receive_data(bytes(octets[start : start + cut]))
    assert seen_of(at_once) == seen_of(in_parts) == seen_of(singly)


def test_longer_text_in_place_of_another_is_found() -> None:
    first, longer = (encode_properties(BasicProperties(message_id=one, app_id=two)) for one, two in ("ab", "cd"))
    server = running()
    server.receive_data(content(1, METHODS[0], b"x", first) * 5)
    flat = flatten(server.events())
    assert len(flat) == 5
    wrong = longer[:2] + b"\x03" + longer[3:]
    server.receive_data(content(1, METHODS[0], b"x", wrong))
    assert isinstance(server.events()[0], Failed)


def test_names_and_mode_are_known_from_the_third_publish_on() -> None:
    properties = [
        encode_properties(BasicProperties(headers={"CC": [str(number)], "n": number}, delivery_mode=2))
        for number in range(3)
    ]
    server = running()
    layouts = []
    for one in properties:
        server.receive_data(content(1, METHODS[0], b"x", one))
        (run,) = server.events()
        assert isinstance(run, PublishRun)
        layouts.append(run.layout)
    assert layouts[0] is None
    assert layouts[1] is layouts[2] is not None
    assert (layouts[2].names, layouts[2].delivery_mode) == ({b"CC", b"n"}, 2)


def test_other_fixed_octets_of_the_same_size_are_learned_after_a_while() -> None:
    server = running()
    for number in range(PATIENCE + 10):
        properties = encode_properties(BasicProperties(headers={"a" if number < 3 else "b": number}))
        server.receive_data(content(1, METHODS[0], b"x", properties))
    run = server.events()[-1]
    assert isinstance(run, PublishRun)
    assert run.layout is not None
    assert run.layout.names == {b"b"}


def test_shapes_are_remembered_within_a_bound() -> None:
    server = running()
    for size in range(3 * SHAPES):
        properties = encode_properties(BasicProperties(message_id="x" * size))
        server.receive_data(content(1, METHODS[0], b"x", properties) * 3)
    assert len(flatten(server.events())) == 9 * SHAPES
    assert len(server._reader._runs._shapes._known) <= SHAPES


def test_methods_that_differ_in_their_bits_are_not_mixed() -> None:
    server = running()
    stream = [METHODS[0], METHODS[1], METHODS[2], METHODS[2], METHODS[0]]
    server.receive_data(b"".join(content(1, method, b"x") for method in stream))
    events = server.events()
    for event in events:
        if isinstance(event, PublishMix):
            assert len({kind.method.mandatory for kind in event.kinds}) == 1
    assert [one[1] for one in flatten(events)] == stream  # type: ignore[index]  # they are publishes


def test_frames_of_two_channels_that_alternate_are_not_one_publish() -> None:
    server = running(channels=(1, 2))
    alike = content(2, METHODS[0], b"x"), content(1, METHODS[0], b"x")
    server.receive_data(alike[0] * 3 + alike[1] * 3)
    server.events()
    size = alike[0].index(b"\xce") + 1
    crossed = alike[0][:size] + alike[1][size:]
    server.receive_data(alike[0] * 2 + crossed + alike[0])
    seen = seen_of(server)
    again = running(channels=(1, 2))
    for place in range(len(crossed)):
        again.receive_data((alike[0] * 2 if not place else b"") + crossed[place : place + 1])
    assert [type(event) for event in seen[0]][:3] == [type(event) for event in seen_of(again)[0]][:3]
