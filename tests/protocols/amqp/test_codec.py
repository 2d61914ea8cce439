"""Methods as octets: round trips, an independent peer, and what cannot be read."""

from typing import Any, ClassVar

import pamqp.commands
import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp import (
    AMQP_METHODS,
    METHODS,
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConnectionOpen,
    Method,
    MethodTable,
    QueueBind,
    QueueDeclare,
    Row,
)
from triomq.protocols.amqp.codec import DEEPEST_ARGUMENTS, Field, MethodLayout
from triomq.protocols.amqp.codes import PeerError
from triomq.protocols.amqp.methods import Bit, Short, ShortString

from ..test_fields import tables
from .wire import frame

_DOMAINS: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "shortstr": st.text(max_size=30),
    "longstr": st.binary(max_size=30),
    "table": tables,
}


def filled(layout: MethodLayout, domains: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Method]:
    fields = [domains[field.domain] for field in layout.fields if not field.reserved]
    return st.tuples(*fields).map(lambda values: layout.row.method(*values))


methods = st.one_of([filled(layout, _DOMAINS) for layout in AMQP_METHODS.layouts])


@given(methods)
def test_every_method_is_read_as_it_was_written(method: Method) -> None:
    assert AMQP_METHODS.decode(AMQP_METHODS.encode(method)) == method


# The other implementation checks names and prefers text: what it lets through is enough to compare layouts.
_THEIRS = {
    **_DOMAINS,
    "shortstr": st.text("abcxyz.-", max_size=20),
    "longstr": st.text("abcxyz", max_size=20).map(str.encode),
    "table": st.dictionaries(st.text("abc", min_size=1, max_size=5), st.integers(2**31, 2**40) | st.booleans()),
    "longlong": st.integers(0, 2**63 - 1),
    "long": st.integers(0, 2**31 - 1),
}
# They warn of a deprecated method.
_THEIR_CLASSES = {
    (kind.index >> 16, kind.index & 0xFFFF): kind
    for kind in pamqp.commands.INDEX_MAPPING.values()
    if kind is not pamqp.commands.Basic.RecoverAsync
}
shared = [layout for layout in AMQP_METHODS.layouts if (layout.row.class_id, layout.row.method_id) in _THEIR_CLASSES]


def test_another_implementation_knows_nearly_all_methods() -> None:
    unknown = {layout.row.name for layout in AMQP_METHODS.layouts if layout not in shared}
    assert unknown <= {"access.request", "access.request-ok", "basic.recover-async"}


@given(st.one_of([filled(layout, _THEIRS) for layout in shared]))
def test_another_implementation_reads_what_we_write(method: Method) -> None:
    layout = AMQP_METHODS.by_type[type(method)]
    size, channel, theirs = pamqp.frame.unmarshal(frame(1, 7, AMQP_METHODS.encode(method)))
    assert (size, channel) == (len(AMQP_METHODS.encode(method)) + 8, 7)
    assert isinstance(theirs, _THEIR_CLASSES[layout.row.class_id, layout.row.method_id])
    for field, (_, value) in zip(layout.fields, theirs, strict=True):
        if not field.reserved:
            ours = getattr(method, field.name)
            assert (value.encode() if field.domain == "longstr" else value) == ours


@given(st.one_of([filled(layout, _THEIRS) for layout in shared]))
def test_we_read_what_another_implementation_writes(method: Method) -> None:
    layout = AMQP_METHODS.by_type[type(method)]
    theirs = _THEIR_CLASSES[layout.row.class_id, layout.row.method_id]()
    for field, (name, _) in zip(layout.fields, theirs, strict=True):
        if not field.reserved:
            value = getattr(method, field.name)
            setattr(theirs, name, value.decode() if field.domain == "longstr" else value)
    assert AMQP_METHODS.decode(pamqp.frame.marshal(theirs, 1)[7:-1]) == method


def test_bits_share_an_octet_lowest_first() -> None:
    payload = AMQP_METHODS.encode(QueueDeclare("q", durable=True, no_wait=True))
    assert payload == b"\x00\x32\x00\x0a\x00\x00\x01q\x12\x00\x00\x00\x00"


def test_reserved_fields_are_written_as_zero_and_read_past() -> None:
    assert AMQP_METHODS.encode(ConnectionOpen("/")) == b"\x00\x0a\x00\x28\x01/\x00\x00"
    assert AMQP_METHODS.decode(b"\x00\x0a\x00\x28\x01/\x03abc\x01") == ConnectionOpen("/")


def test_name_that_is_not_utf_8_comes_out_as_it_came_in() -> None:
    payload = b"\x00\x3c\x00\x28\x00\x00\x01\xff\x02\xc3\x28\x00"
    method = AMQP_METHODS.decode(payload)
    assert isinstance(method, BasicPublish)
    assert method.exchange == "\udcff"
    assert AMQP_METHODS.encode(method) == payload


@pytest.mark.parametrize(
    ("payload", "code", "text", "blamed"),
    [
        (b"", 501, "FRAME_ERROR - cannot decode <<>>", (0, 0)),
        (b"\x00\x3c", 501, "FRAME_ERROR - cannot decode <<0,60>>", (0, 0)),
        (b"\x00\x63\x00\x0a", 540, "NOT_IMPLEMENTED - unknown class 99", (99, 10)),
        (b"\x00\x3c\x00\xc7", 540, "NOT_IMPLEMENTED - unknown method 199 of class 60", (60, 199)),
        (b"\x00\x3c\x00\x0a\x00\x00", 501, "FRAME_ERROR - cannot decode <<0,0>>", (60, 10)),
        (b"\x00\x3c\x00\x50" + bytes(9) + b"x", 501, "cannot decode <<0,0,0,0,0,0,0,0,0,120>>", (60, 80)),
        (b"\x00\x3c\x00\x1e\x09ab", 501, "cannot decode", (60, 30)),
        (b"\x00\x0a\x00\x15\x00\x00\x00\x09ab", 501, "cannot decode", (10, 21)),
        (
            b"\x00\x32\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x03\x01aQ",
            502,
            "SYNTAX_ERROR - unknown field type 'Q'; known are tbBsUuIilLfdDSATFVx in queue.declare",
            (50, 10),
        ),
    ],
)
def test_error_of_an_unreadable_method_has_the_reason(
    payload: bytes, code: int, text: str, blamed: tuple[int, int]
) -> None:
    with pytest.raises(PeerError) as caught:
        AMQP_METHODS.decode(payload)
    assert caught.value.code == code
    assert text in caught.value.text
    assert (caught.value.class_id, caught.value.method_id) == blamed


def test_arguments_do_not_nest_without_end() -> None:
    arguments: dict[str, Any] = {}
    for _ in range(DEEPEST_ARGUMENTS):
        arguments = {"k": arguments}
    assert AMQP_METHODS.decode(AMQP_METHODS.encode(QueueDeclare("q", arguments=arguments)))
    payload = AMQP_METHODS.encode(QueueDeclare("q", arguments={"k": arguments}))
    with pytest.raises(PeerError, match="deeper than 64 levels in queue"):
        AMQP_METHODS.decode(payload)


@pytest.mark.parametrize(
    "method", [BasicQos(2**32), BasicQos(0, -1), BasicAck(2**64), BasicNack(-1), QueueBind("q" * 256, "e")]
)
def test_value_that_does_not_fit_is_our_own_mistake(method: Method) -> None:
    with pytest.raises(LocalProtocolError, match=r"(basic|queue)\."):
        AMQP_METHODS.encode(method)


def test_value_of_another_type_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="b'q' is no shortstr"):
        AMQP_METHODS.encode(QueueDeclare(b"q"))  # type: ignore[arg-type]  # that is the test


class DirectPut(Method, frozen=True, gc=False):
    """A method of an extension class."""

    sink: ShortString
    loud: Bit = False
    reserved_1: ClassVar[Bit] = False
    count: Short = 0


def test_extension_class_is_more_rows() -> None:
    table = MethodTable((*METHODS, Row(DirectPut, 61500, 10, "client", "direct.put")))
    payload = b"\xf0\x3c\x00\x0a\x01s\x01\x00\x05"
    assert table.encode(DirectPut("s", loud=True, count=5)) == payload
    assert table.decode(payload) == DirectPut("s", loud=True, count=5)
    assert table.by_type[DirectPut].fields[2] == Field("reserved_1", "bit", True)
    with pytest.raises(PeerError):
        AMQP_METHODS.decode(payload)
    with pytest.raises(LocalProtocolError, match="no row"):
        AMQP_METHODS.encode(DirectPut("s"))
