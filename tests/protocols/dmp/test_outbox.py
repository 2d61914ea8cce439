"""What is sent: whole messages, single ones, and contents of another form."""

from itertools import repeat

import pytest

from protocols.dmp.wire import FULL, client, message, messages_in, sent, serving
from triomq.core import Head
from triomq.errors import LocalProtocolError
from triomq.protocols import NO_PROPERTIES
from triomq.protocols.dmp import LARGEST_MESSAGE, DMPEngine
from triomq.protocols.dmp.outbox import LARGE, REMEMBERED


def feed() -> DMPEngine:
    engine = serving("feed")
    sent(engine)
    return engine


def test_message_that_came_goes_on_as_it_is() -> None:
    engine = feed()
    engine.send_whole([FULL, FULL], 2 * len(FULL))
    assert engine.outbox.unsent == 2 * len(FULL)
    assert sent(engine) == FULL * 2
    assert engine.outbox.unsent == 0


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE, 3 * LARGE])
def test_client_sends_one_message(size: int) -> None:
    sink, server = client("sink"), serving()
    for number in range(3):
        sink.send_message("ex", f"key{number}", b"\x10\0\x02", b"x" * size, mandatory=True, immediate=number == 1)
    server.receive_data(sent(sink))
    assert messages_in(server.events()) == [
        ("ex", f"key{number}", b"\x10\0\x02", 3 if number == 1 else 2, b"x" * size) for number in range(3)
    ]


@pytest.mark.parametrize("size", [0, 5, LARGE])
def test_contents_of_another_form_are_framed(size: int) -> None:
    engine, reader = feed(), client("feed")
    contents = [b"..%b--%b!" % (bytes((0, 0)), b"x" * (size + number // 2)) for number in range(4)]
    engine.send_framed(repeat(Head("ex", "key", 2, 4, 6, 1)), contents)
    unsent = engine.outbox.unsent
    data = sent(engine)
    assert unsent == len(data)
    reader.receive_data(data)
    assert messages_in(reader.events()) == [
        ("ex", "key", NO_PROPERTIES, 0, b"x" * (size + number // 2)) for number in range(4)
    ]


def test_contents_of_several_forms_are_framed_in_one_go() -> None:
    engine, reader = feed(), client("feed")
    forms = [Head("ex", "one", 0, 2, 2), Head("ex", "two", 1, 3, 4, 1), Head("", "two", 1, 5, 5)]
    contents = [b"\0\0first", b".\0\0.second.", b".\x80\0\x01mthird"]
    engine.send_framed([*forms, forms[0]], [*contents, contents[0]])
    reader.receive_data(sent(engine))
    assert messages_in(reader.events()) == [
        ("ex", "one", NO_PROPERTIES, 0, b"first"),
        ("ex", "two", NO_PROPERTIES, 0, b"second"),
        ("", "two", b"\x80\0\x01m", 0, b"third"),
        ("ex", "one", NO_PROPERTIES, 0, b"first"),
    ]


def test_contents_are_framed_all_or_none() -> None:
    engine = feed()
    with pytest.raises(LocalProtocolError, match="can say"):
        engine.send_framed(repeat(Head("", "", 0, 2, 2)), [b"\0\0", bytes(LARGEST_MESSAGE + 3)])
    assert not engine.outbox.unsent
    assert sent(engine) == b""


def test_many_kinds_of_message_are_not_all_remembered() -> None:
    sink, server = client("sink"), serving()
    for number in range(3 * REMEMBERED):
        sink.send_message("", str(number), NO_PROPERTIES, b"x")
    server.receive_data(sent(sink))
    assert len(messages_in(server.events())) == 3 * REMEMBERED


def test_body_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="can say"):
        client("sink").send_message("", "", NO_PROPERTIES, bytes(LARGEST_MESSAGE + 1))


def test_messages_are_sent_neither_before_the_server_is_ready_nor_after_the_end() -> None:
    engine = DMPEngine("server", now=0.0)
    with pytest.raises(LocalProtocolError, match="state waiting"):
        engine.send_whole([message()], 9)
    sink = client("sink")
    sink.receive_data(b"")
    sink.send_message("", "", NO_PROPERTIES, b"")
    assert sent(sink) == b""
