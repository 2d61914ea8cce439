"""What breaks the rules, row by row: the answer, and that the engine has ended."""

import pytest

from protocols.micromsg.wire import ack, bodies, command, extension, handshake, message, named, sent, serving
from triomq.protocols.micromsg import (
    DEFAULT_OPTIONAL,
    ErrorReceived,
    Failed,
    HandshakeCompleted,
    MicroMsgServer,
    Settings,
)

KNOWN = Settings(
    required=named("batch-ack"),
    optional=(*DEFAULT_OPTIONAL[1:], *named("json", "dotnet", "x-mine")),
    max_payload=1024,
    max_message=2048,
)
ALL = b"batch-ack:max-count=10;pub-sub;dotnet;json"


def failed(engine: MicroMsgServer) -> Failed:
    """Return the only failure, which ends an engine."""
    event = engine.events()[-1]
    assert isinstance(event, Failed), event
    assert engine.outbox.finished
    assert engine.state == "closed"
    return event


def first(data: bytes, settings: Settings = KNOWN) -> MicroMsgServer:
    engine = MicroMsgServer(now=0.0, settings=settings)
    engine.receive_data(data)
    return engine


# Handshakes


def test_error_where_a_handshake_belongs_is_not_answered() -> None:
    engine = first(b"\x04\x09no thanks")
    assert engine.events() == [ErrorReceived(0, "no thanks")]
    assert sent(engine) == b""


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\0\1", b"\x07\0\0\0", b"\x0f", b"\x14\1a"])
def test_other_protocols_are_left_without_a_word(data: bytes) -> None:
    engine = first(data)
    assert "another protocol" in failed(engine).text
    assert sent(engine) == b""


@pytest.mark.parametrize("data", [handshake(version=b"\0\0"), b"AMQP\0\0\x09\1", b"\x08", b"\xfb"])
def test_major_version_that_nobody_has_is_refused(data: bytes) -> None:
    engine = first(data)
    assert failed(engine).code == 505
    assert sent(engine)[2:].startswith(b"505 major version")


@pytest.mark.parametrize("version", [b"\2\0", b"\3\7"])
def test_later_major_version_is_answered(version: bytes) -> None:
    engine = first(handshake(version=version))
    assert engine.events() == []
    assert sent(engine)[:2] == b"\1\0"


def test_reserved_flags_of_a_handshake_are_passed_over() -> None:
    engine = first(handshake(flags=255) + handshake(b"batch-ack", flags=255))
    assert isinstance(engine.events()[0], HandshakeCompleted)


@pytest.mark.parametrize(("identity", "read"), [(b"", ""), (b"h\xfclk\n", "h\\xfclk\\x0a"), (b"h\xc3\xbclk", "hülk")])
def test_any_identity_is_accepted(identity: bytes, read: str) -> None:
    engine = first(handshake(identity=identity))
    assert engine.events() == []
    assert engine.peer_identity == read


def test_long_list_is_refused_by_its_length() -> None:
    for data in (b"\1\0\0\0\x10\x01", b"\1\0\0\0\0\0\x10\x01"):
        engine = first(data)
        assert failed(engine).code == 413
        assert sent(engine)[2:].startswith(b"413 the list of")


@pytest.mark.parametrize(
    ("lists", "code"),
    [
        ((b"j\xc3\xb6", b""), 400),
        ((b"", b"j\xc3\xb6"), 400),
        ((b"Json", b""), 501),
        ((b"a/b", b""), 501),
        ((b"a b", b""), 501),
        ((b"ack:max", b""), 400),
        ((b"x-mine:a=%4", b""), 400),
        ((b"x-mine:a=%ff", b""), 400),
        ((b";".join(b"x-%d" % n for n in range(256)), b""), 400),
        ((b"x-none;x-other", b""), 501),
        ((b"ACK", b""), 501),
    ],
)
def test_list_that_is_not_in_order_is_refused(lists: tuple[bytes, bytes], code: int) -> None:
    engine = first(handshake(*lists))
    assert failed(engine).code == code
    assert sent(engine)[2:].startswith(b"%d " % code)


def test_names_of_unknown_extensions_are_listed_as_far_as_there_is_room() -> None:
    engine = first(handshake(b";".join(b"x-strange-name-%d" % n for n in range(100))))
    octets = sent(engine)
    assert octets[2:].startswith(b"501 these extensions are not supported: x-strange-name-0, x-strange-name-1")
    assert octets[1] == len(octets) - 2 <= 255


@pytest.mark.parametrize(
    "lists", [(b"", b"Json;a/b;a b;ACK;x-none"), (b" json ;; ", b";"), (b"json;json:a=b", b"json")]
)
def test_list_that_can_be_understood_is_accepted(lists: tuple[bytes, bytes]) -> None:
    assert first(handshake(*lists)).events() == []


@pytest.mark.parametrize(
    ("choice", "code"),
    [
        (b"json", 412),
        (b"batch-ack;x-none", 400),
        (b"batch-ack:max-count=0", 400),
        (b"batch-ack:max-count=-5", 400),
        (b"batch-ack:max-count=five", 400),
        (b"batch-ack:max-count=32768", 400),
        (b"batch-ack;x-heartbeat:interval=1", 400),
    ],
)
def test_choice_that_is_none_is_refused(choice: bytes, code: int) -> None:
    engine = first(handshake(b"batch-ack") + handshake(choice))
    assert failed(engine).code == code


def test_extensions_that_are_required_and_missing_are_listed() -> None:
    settings = Settings(required=named("json", "batch-ack"), optional=())
    engine = first(handshake() + handshake(), settings)
    assert failed(engine).text == "these extensions are required: json, batch-ack"


@pytest.mark.parametrize("data", [message(1), b"\1\3abc"])
def test_frame_in_the_place_of_the_second_handshake_is_refused(data: bytes) -> None:
    engine = first(handshake() + data)
    if data[0]:
        assert engine.events() == []  # version 1: it may become a handshake
    else:
        assert failed(engine).code == 505


# Frames


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x03", 400),  # two kinds at once
        (b"\x05", 400),
        (b"\x06", 400),
        (b"\x07", 400),
        (b"\x20", 400),  # flags that there are not
        (b"\x40", 400),
        (b"\x80", 400),
        (b"\x28", 400),
        (b"\x11\1a", 400),  # other frames in several
        (b"\x12\1\1a", 400),
        (b"\x14\1a", 400),
        (b"\x08\0\1\0\0\0\xff\xff\xff\xff", 413),
        (b"\x08\0\1\0\0\0\0\0\x04\x01", 413),
        (b"\x09\xff\xff\xff\xff", 413),
        (b"\x09\0\0\x40\x01", 413),
        (b"\x0a\1\0\0\x04\x01", 413),
        (
            message(1, b"x" * 1000, continued=True) + message(1, b"x" * 1000, continued=True) + message(1, b"x" * 49),
            413,
        ),
        (message(1, continued=True) + message(2), 400),
        (message(1, continued=True) + message(2, continued=True), 400),
        (message(0), 400),
        (message(1) + message(0), 400),
        (b"".join(map(message, range(1, 12))), 409),
        (message(1, properties=b"a"), 400),
        (message(1, properties=b":N5;"), 400),
        (message(1, properties=b"a:1;a:2;"), 400),
        (message(1, properties=b"a:T%4;"), 400),
        (message(1, properties=b"a:\xff;"), 400),
        (message(1, destination=b"\xff"), 400),
        (message(1, destination=b"a\nb"), 400),
        (message(1, destination=b"a\x7f"), 400),
        (message(1, properties=b"a", continued=True), 400),
        (extension(0, b""), 400),
        (extension(5, b""), 400),
        (extension(1, b""), 400),
        (extension(1, b"\0"), 400),
        (extension(1, b"\0\0\1"), 400),
        (extension(1, b"\0\0\0\1"), 400),
        (command(b""), 501),
        (command(b"dance"), 501),
        (command(b"subscribe"), 400),
        (command(b"subscribe;destination=a,filter=a%3FN5"), 400),
        (b"\x0a\3\0\0\x04\x01" + bytes(1025), 413),
        (extension(3, b"\xff"), 400),
    ],
)
def test_frame_that_is_none_is_refused(data: bytes, code: int) -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(data)
    assert failed(engine).code == code
    octets = sent(engine)
    assert octets[0] == 4
    assert octets[2:].startswith(b"%d " % code)
    singly = serving(ALL, KNOWN)
    for octet in data:
        singly.receive_data(bytes((octet,)))
    assert sent(singly) == octets


def test_long_type_is_refused() -> None:
    engine = serving(b"dotnet", Settings(optional=named("dotnet")))
    engine.receive_data(b"\x0a\1\0\0\x04\x01" + bytes(1025))
    assert failed(engine).code == 400


def test_command_without_pub_sub_is_refused() -> None:
    engine = serving(b"batch-ack")
    engine.receive_data(command(b"subscribe;destination=a"))
    assert failed(engine).code == 501


def test_messages_before_a_bad_one_count() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(message(1, b"good") + message(2, b"also") + b"\x80")
    *good, bad = engine.events()
    assert bodies(good) == [b"good", b"also"]
    assert isinstance(bad, Failed)


def test_messages_within_the_window_count_where_others_follow() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(
        b"".join(message(number, b"%d" % number, properties=b"a:N%d;" % number) for number in range(1, 13))
    )
    *good, bad = engine.events()
    assert bodies(good) == [b"%d" % number for number in range(1, 11)]
    assert isinstance(bad, Failed)
    assert bad.text == "more than 10 messages are unacknowledged; wait for an ack"


def test_values_of_no_type_are_texts() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(message(1, properties=b"a:Nabc;b:Dxyz;"))
    (run,) = engine.events()
    assert run.shape.values == {"a": "Nabc", "b": "Dxyz", "content-type": "application/json"}  # type: ignore[union-attr]


def test_body_that_is_no_json_is_handed_over() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(message(1, b"{no json"))
    assert bodies(engine.events()) == [b"{no json"]


def test_empty_destination_is_for_the_owner_to_judge() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(message(1, destination=b""))
    assert len(bodies(engine.events())) == 1


def test_empty_body_is_complete_at_once() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(message(1, b""))
    assert bodies(engine.events()) == [b""]


@pytest.mark.parametrize("sequence", [0, 5, 65535])
def test_ack_of_nothing_is_dropped(sequence: int) -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(ack(1, sequence))
    assert engine.events() == []
    assert engine.state == "open"


def test_long_error_of_a_peer_is_cut() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(b"\x0c\xff\xff\xff\xff" + b"400 " + b"x" * 2000)
    (event,) = engine.events()
    assert isinstance(event, ErrorReceived)
    assert (event.code, len(event.text)) == (400, 1020)
    assert sent(engine) == b""


def test_error_of_a_peer_that_is_no_text_is_shown_with_escapes() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(b"\x04\x03\xff\n!")
    assert engine.events() == [ErrorReceived(0, "\\xff\\x0a!")]


def test_nothing_is_heard_after_the_end() -> None:
    engine = serving(ALL, KNOWN)
    engine.receive_data(b"\x80" + message(1))
    failed(engine)
    engine.receive_data(message(1) + b"\x80")
    assert engine.events() == []
