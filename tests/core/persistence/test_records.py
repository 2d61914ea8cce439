from collections.abc import Callable
from datetime import UTC
from decimal import Decimal
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import (
    Binding,
    Comparison,
    Condition,
    Head,
    Overflow,
    QueueOptions,
    SinkKind,
    SinkOptions,
    StreamOptions,
    Target,
    Traits,
    make_predicate,
    traits_of,
)
from triomq.core.persistence.records import (
    HeadCodec,
    decode_binding,
    decode_identity,
    decode_key,
    decode_maker,
    decode_queue_options,
    decode_sink_options,
    encode_binding,
    encode_key,
    encode_maker,
    encode_options,
)

NAMES = st.text() | st.binary(max_size=20).map(lambda octets: octets.decode("utf-8", "surrogateescape"))
SECONDS = st.none() | st.floats(0, 1e9)
COUNTS = st.none() | st.integers(0, 2**63 - 1)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | NAMES
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.just(UTC))
    | st.dictionaries(st.text(), NAMES, max_size=2)
)
NOTES = st.lists(st.tuples(NAMES, VALUES), max_size=3).map(tuple)
QUEUES = st.builds(
    QueueOptions,
    durable=st.booleans(),
    exclusive=st.booleans(),
    auto_delete=st.booleans(),
    expires=SECONDS,
    message_ttl=SECONDS,
    dead_letter_sink=st.none() | NAMES,
    dead_letter_key=st.none() | NAMES,
    max_length=COUNTS,
    max_bytes=COUNTS,
    max_priority=st.integers(0, 255),
    overflow=st.sampled_from(Overflow),
    delivery_limit=COUNTS,
    single_active=st.booleans(),
    private=st.booleans(),
    consumer_timeout=SECONDS,
    notes=NOTES,
    remarks=NOTES,
    stream=st.none()
    | st.builds(StreamOptions, max_age=SECONDS, segment_bytes=st.integers(1, 2**63 - 1), partition_of=NAMES),
)
SINKS = st.builds(
    SinkOptions,
    kind=st.sampled_from(SinkKind),
    durable=st.booleans(),
    auto_delete=st.booleans(),
    internal=st.booleans(),
    alternate=st.none() | NAMES,
    hash_header=st.none() | NAMES,
    hash_property=st.none() | NAMES,
    remarks=NOTES,
)
PREDICATE = make_predicate([Condition("x-price", Comparison.EQUAL, Decimal("1.5"))])
BINDINGS = st.builds(
    Binding,
    NAMES,
    st.sampled_from(Target),
    NAMES,
    NAMES,
    st.binary(),
    st.sampled_from([None, PREDICATE]),
)
OFFSETS = st.integers(0, 2**31)
TRAITS = st.builds(
    traits_of,
    codec=st.integers(0, 255),
    publisher=st.integers(0, 2**31),
    has_expiration=st.booleans(),
    has_priority=st.booleans(),
    persistent=st.booleans(),
    expendable=st.booleans(),
    repeated=st.booleans(),
)
HEADS = st.builds(Head, NAMES, NAMES, *[OFFSETS] * 6, TRAITS)


@given(st.lists(NAMES, min_size=1))
def test_keys_come_back_whatever_octets_are_in_the_names(names: list[str]) -> None:
    assert decode_key(encode_key(*names)) == names


def test_keys_of_other_names_differ() -> None:
    assert encode_key("a", "b") != encode_key("ab") != encode_key("a", "", "b")


def test_strategies_know_all_options() -> None:
    """An option that is new must be in the strategies, so that it is known to come back."""
    options = [QueueOptions, SinkOptions, Head, Traits, Binding]
    assert [len(kind.__struct_fields__) for kind in options] == [18, 8, 9, 7, 6]


@given(QUEUES)
def test_queues_options_come_back(options: QueueOptions) -> None:
    encoded = encode_options(options, "peer", "ada", identity=7)
    found, origin, user = decode_queue_options(encoded)
    assert (origin, user) == ("peer", "ada")
    assert decode_identity(encoded) == 7
    assert decode_identity(encode_options(options)) == 0
    assert found == options
    assert typed(found.notes) == typed(options.notes)


@given(SINKS)
def test_sinks_options_come_back(options: SinkOptions) -> None:
    assert decode_sink_options(encode_options(options)) == (options, "", "")


def typed(value: object) -> object:
    """The value with its types, for which True is not 1, nor a list a tuple."""
    if isinstance(value, list | tuple):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    return type(value), str(value)


@pytest.mark.parametrize(
    ("decode", "options"), [(decode_queue_options, QueueOptions()), (decode_sink_options, SinkOptions())]
)
def test_option_that_an_earlier_version_did_not_know_is_as_by_default(
    decode: Callable[[bytes], object], options: QueueOptions | SinkOptions
) -> None:
    assert decode(msgspec.msgpack.encode({})) == (options, "", "")


@given(NAMES, BINDINGS)
def test_bindings_come_back(domain: str, binding: Binding) -> None:
    assert decode_binding(encode_binding(domain, binding)) == (domain, binding)


@given(HEADS, st.integers(0, 255))
def test_heads_come_back(head: Head, level: int) -> None:
    codec = HeadCodec()
    for _ in range(2):  # from what it remembers as well
        assert codec.decode(codec.encode(head, level, inf, 0.0), 0.0) == (head, level, inf)


@given(HEADS, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_deadline_is_as_far_away_by_another_clock(head: Head, now: float, other: float, left: float) -> None:
    codec = HeadCodec()
    found, level, deadline = codec.decode(codec.encode(head, 3, now + left, now), other)
    assert (found, level) == (head, 3)
    assert deadline - other == pytest.approx(left, abs=1)


@given(st.lists(HEADS, min_size=1, max_size=4, unique=True), st.data(), st.integers(0, 255), st.booleans())
def test_heads_of_a_run_come_back(kinds: list[Head], data: st.DataObject, level: int, expires: bool) -> None:
    codec, heads = HeadCodec(), data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=300))
    encoded = codec.encode_run(heads[0], heads, level, 5.0 if expires else inf, 0.0)
    head, found, found_level, deadline = codec.decode_run(encoded, len(heads), 0.0)
    assert (head, found_level) == (heads[0], level)
    assert found == (heads if len(set(heads)) > 1 else None)
    assert deadline == (pytest.approx(5.0, abs=1) if expires else inf)
    alone = codec.encode_run(head, None, level, inf, 0.0)
    assert codec.decode_run(alone, len(heads), 0.0) == (head, None, level, inf)


@pytest.mark.parametrize(
    "encoded",
    [
        msgspec.msgpack.encode(([], [0, 0])),
        msgspec.msgpack.encode(([HeadCodec().encode(Head(), 0, inf, 0.0)], [0])),
        msgspec.msgpack.encode(([HeadCodec().encode(Head(), 0, inf, 0.0)], [0, 1])),
        msgspec.msgpack.encode(([HeadCodec().encode(Head(), 0, inf, 0.0)], [0, -1])),
        msgspec.msgpack.encode(([b"x"], [0, 0])),
        b"",
    ],
)
def test_heads_that_are_not_those_of_a_run_are_not_decoded(encoded: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        HeadCodec().decode_run(encoded, 2, 0.0)


def test_in_the_next_life_nobody_knows_who_published() -> None:
    head = Head(exchange="e", traits=traits_of(publisher=7))
    before, after = HeadCodec(), HeadCodec()
    encoded = before.encode(head, 0, inf, 0.0)
    assert before.decode(encoded, 0.0)[0] == head
    assert after.decode(encoded, 0.0)[0] == Head(exchange="e")


def test_heads_that_are_equal_are_given_as_one() -> None:
    before, after = HeadCodec(), HeadCodec()
    encoded = [before.encode(Head(exchange="e", traits=traits_of(publisher=number)), 0, inf, 0.0) for number in (1, 2)]
    encoded.append(before.encode(Head(exchange="e"), 1, 5.0, 0.0))
    first, *others = [after.decode(each, 0.0)[0] for each in encoded]
    assert all(other is first for other in others)


def test_no_more_heads_are_remembered_than_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.core.persistence.records._MOST", 2)
    codec = HeadCodec()
    heads = [Head(routing_key=str(number)) for number in range(5)]
    for _ in range(2):
        assert [codec.decode(codec.encode(head, 0, inf, 0.0), 0.0)[0] for head in heads] == heads


def test_head_that_an_earlier_version_wrote_has_no_publisher() -> None:
    codec = HeadCodec()
    encoded = codec.encode(Head(routing_key="k", traits=traits_of(publisher=7)), 2, inf, 0.0)
    fields = msgspec.msgpack.decode(encoded)
    assert codec.decode(msgspec.msgpack.encode(fields[:12]), 0.0) == (Head(routing_key="k"), 0, inf)


@pytest.mark.parametrize(("origin", "user"), [("", ""), ("peer", ""), ("", "ada"), ("peer", "ada"), ("a\0b", "")])
def test_maker_of_a_binding_comes_back(origin: str, user: str) -> None:
    assert decode_maker(encode_maker(origin, user)) == (origin, user)


def test_maker_of_a_binding_comes_back_from_before_there_were_users() -> None:
    assert decode_maker(b"peer") == ("peer", "")
