"""Deliveries of a stream's records: each is what was published, with its offset among its headers."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols import BasicProperties, FieldValue, Timestamp, Typed, decode_properties, encode_properties
from triomq.protocols.amqp import BasicDeliver, Framing, Settings
from triomq.protocols.amqp.outbox import LARGE
from triomq.protocols.amqp.records import OFFSET_HEADER, cut_all, with_offset

from .wire import exchange, flatten, frame_sizes, pair, sent

UNFRAMED = Framing(0, 0, 0, 0, 0, 0)

HEADERS = st.dictionaries(
    st.text(max_size=4),
    st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20) | st.booleans() | st.just(["a", {"b": Timestamp(5)}]),
    max_size=3,
)
PROPERTIES = st.builds(
    BasicProperties,
    content_type=st.none() | st.text(max_size=9),
    content_encoding=st.none() | st.text(max_size=9),
    headers=st.none() | HEADERS,
    delivery_mode=st.none() | st.integers(1, 2),
    message_id=st.none() | st.text(max_size=9),
    app_id=st.none() | st.text(max_size=9),
).map(encode_properties)


def expected(properties: bytes, offset: int) -> BasicProperties:
    basic = decode_properties(properties, typed=True)
    plain = Typed("l", offset) if offset < 2**31 else offset  # which is a long-long by itself
    headers: dict[str, FieldValue] = {**(basic.headers or {}), OFFSET_HEADER: plain}
    return msgspec.structs.replace(basic, headers=headers)


@given(properties=PROPERTIES, offset=st.integers(0, 2**63 - 1))
def test_offset_is_added_to_any_properties_and_changes_no_other(properties: bytes, offset: int) -> None:
    before, behind = with_offset(properties)
    assert decode_properties(before + offset.to_bytes(8, "big") + behind, typed=True) == expected(properties, offset)


def test_offset_that_a_publisher_claims_gives_way() -> None:
    properties = encode_properties(BasicProperties(headers={OFFSET_HEADER: 99, "a": 1}, message_id=OFFSET_HEADER))
    before, behind = with_offset(properties)
    found = decode_properties(before + (5).to_bytes(8, "big") + behind)
    assert (found.headers, found.message_id) == ({OFFSET_HEADER: 5, "a": 1}, OFFSET_HEADER)


def test_name_of_the_header_in_a_value_means_nothing() -> None:
    properties = encode_properties(BasicProperties(headers={"a": OFFSET_HEADER}))
    before, behind = with_offset(properties)
    assert decode_properties(before + bytes(8) + behind).headers == {OFFSET_HEADER: 0, "a": OFFSET_HEADER}


def test_headers_that_nobody_can_read_are_passed_on() -> None:
    properties = b"\x20\x00" + (20).to_bytes(4, "big") + b"\x0fx-stream-offset" + b"!" * 4
    before, behind = with_offset(properties)
    assert properties[6:] in before + behind


SIMILAR = st.builds(
    BasicProperties,
    content_type=st.sampled_from(["text/plain"] * 6 + ["x"]),
    headers=st.none() | st.dictionaries(st.sampled_from(["trace", OFFSET_HEADER]), st.text(max_size=3)),
    message_id=st.text(min_size=2, max_size=2) | st.just(OFFSET_HEADER),
).map(encode_properties)
"""What publishers send in a row: mostly cut at the same place, with tables of several sizes."""


@given(properties=st.lists(SIMILAR, min_size=1, max_size=6), offset=st.integers(0, 2**63 - 1))
def test_properties_that_differ_in_each_record_are_cut_as_one_by_one(properties: list[bytes], offset: int) -> None:
    cuts = cut_all(properties)
    assert list(zip(cuts.leads, cuts.rests, strict=True)) == [with_offset(each) for each in properties]
    for lead, rest, size, each in zip(*cuts, properties, strict=True):
        whole = lead + offset.to_bytes(8, "big") + rest
        assert decode_properties(whole, typed=True) == expected(each, offset)
        assert size == len(whole)


BODIES = st.binary(max_size=50) | st.sampled_from([0, 4088, 4089, 9000, LARGE]).map(bytes)


@given(
    records=st.lists(st.tuples(st.text(max_size=5), PROPERTIES, BODIES), min_size=1, max_size=5),
    first=st.integers(0, 2**62) | st.integers(0, 9),
    frame_max=st.sampled_from([4096, 131072]),
    is_alike=st.booleans(),
    channel=st.sampled_from([1, 2]),
)
def test_records_are_delivered_with_their_offsets(
    records: list[tuple[str, bytes, bytes]], first: int, frame_max: int, is_alike: bool, channel: int
) -> None:
    client, server = pair(Settings(frame_max=frame_max), channels=2)
    if is_alike:
        key, properties, _ = records[0]
        records = [(key, properties, body) for _, _, body in records]
    fronts = [server.outbox.front(channel, "ctag", False, "e", key, UNFRAMED) for key, _, _ in records]
    encoded = [properties for _, properties, _ in records]
    bodies = [body for _, _, body in records]
    offsets = range(first, first + len(records))
    for _ in range(2):  # with shapes that are made, and with those that are remembered
        alike = is_alike
        server.send_records(
            channel, 7, fronts[0] if alike else fronts, offsets, encoded[0] if alike else encoded, bodies
        )
        assert server.outbox.unsent == sum(map(len, server.outbox._pieces))
        seen = flatten(exchange(client, server)[0])
        assert len(seen) == len(records)
        for position, (one, (key, properties, body)) in enumerate(zip(seen, records, strict=True)):
            assert isinstance(one, tuple)
            number, method, framing, received = one
            assert (number, method) == (channel, BasicDeliver("ctag", 7 + position, False, "e", key))
            assert framing.body(received) == body
            found = decode_properties(framing.properties(received), typed=True)
            assert found == expected(properties, offsets[position])


def test_properties_that_fit_no_frame_with_the_offset_are_delivered_whole() -> None:
    _, server = pair(Settings(frame_max=4096))
    front = server.outbox.front(1, "ctag", False, "e", "k", UNFRAMED)
    properties = encode_properties(BasicProperties(headers={"h": "x" * 5000}))
    server.send_records(1, 7, front, range(1), properties, [b"x"])
    assert [size > 4096 for size in frame_sizes(sent(server))] == [False, True, False]


def test_large_bodies_are_handed_out_without_a_copy() -> None:
    _, server = pair()
    front = server.outbox.front(1, "ctag", False, "e", "k", UNFRAMED)
    bodies = [b"x" * LARGE, b"y" * LARGE]
    server.send_records(1, 7, front, range(2), b"\0\0", bodies)
    pieces = server.data_to_send()
    assert all(any(piece is body for piece in pieces) for body in bodies)
