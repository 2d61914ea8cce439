"""The program of 2014: how it is recognised, and what it must not be sent."""

import pytest

from protocols.micromsg.wire import ack, bodies, handshake, message, named, sent
from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg import (
    SERVER_OPTIONAL,
    SHARPMESSAGING_BODY,
    MicroMessageRun,
    MicroMsgClient,
    MicroMsgServer,
    Settings,
    encode_properties,
)

ACKS = b"ack:MessagesPerAck=10,AckExpireTime=1000"


def serving(final: bytes = b"dotnet;json;" + ACKS) -> MicroMsgServer:
    engine = MicroMsgServer(now=0.0, settings=Settings(optional=SERVER_OPTIONAL))
    engine.receive_data(handshake(b"dotnet;json;" + ACKS, b"json", version=b"\1\1"))
    sent(engine)
    engine.receive_data(handshake(final, version=b"\1\1"))
    engine.events()
    return engine


def asking(reply: bytes = ACKS, window: int = 1000) -> MicroMsgClient:
    engine = MicroMsgClient(now=0.0, settings=Settings(is_sharpmessaging=True, window=window))
    sent(engine)
    engine.receive_data(handshake(b"", reply, version=b"\1\1"))
    engine.events()
    return engine


def test_server_repeats_what_it_has_required_and_suggests_nothing_new() -> None:
    engine = MicroMsgServer(now=0.0, settings=Settings(optional=SERVER_OPTIONAL))
    engine.receive_data(handshake(ACKS, b"json"))
    required = b"ack:max-count=1000,MessagesPerAck=1000,AckExpireTime=250"
    assert sent(engine) == handshake(required, b"json", identity=b"triomq")


def test_window_is_the_one_that_it_has_said() -> None:
    engine = serving()
    assert (engine.window, engine.is_sharpmessaging, engine.largest_body) == (10, True, SHARPMESSAGING_BODY)


def test_lists_that_it_has_no_room_for_are_left_out() -> None:
    long = named(*(f"x-{number:060}" for number in range(6)))
    engine = MicroMsgServer(now=0.0, settings=Settings(optional=(*named("ack"), *long)))
    engine.receive_data(handshake(ACKS, b";".join(each.name.encode() for each in long)))
    required = b"ack:max-count=1000,MessagesPerAck=1000,AckExpireTime=250"
    assert sent(engine) == handshake(required, identity=b"triomq")


def test_client_says_its_counts_in_both_ways() -> None:
    engine = MicroMsgClient(now=0.0, settings=Settings(is_sharpmessaging=True, optional=named("ack"), window=20))
    assert sent(engine) == handshake(b"", b"ack:max-count=20,MessagesPerAck=20,AckExpireTime=250", identity=b"triomq")
    engine.receive_data(handshake(b"", ACKS))
    assert sent(engine) == handshake(b"", b"ack:max-count=10,MessagesPerAck=10,AckExpireTime=250", identity=b"triomq")


def test_client_takes_the_window_of_such_a_server_even_if_it_is_larger_than_its_own() -> None:
    # The server leaves as many unacknowledged as it has said; an ack for fewer makes it send all again.
    assert asking(window=3).window == 10


def test_client_recognises_a_server_that_it_did_not_expect() -> None:
    engine = MicroMsgClient(now=0.0)
    engine.receive_data(handshake(b"", ACKS))
    assert engine.is_sharpmessaging
    assert b"MessagesPerAck=10" in sent(engine)


def test_it_is_acknowledged_at_a_whole_window() -> None:
    engine = serving()
    engine.receive_data(b"".join(map(message, range(1, 11))))
    engine.accept(9)
    engine.acknowledge_now()
    assert sent(engine) == b""
    engine.accept(10)
    assert sent(engine) == ack(3, 10)


def test_it_is_acknowledged_earlier_only_when_it_is_silent_and_all_is_safe() -> None:
    engine = serving()
    engine.receive_data(message(1) + message(2))
    engine.accept(1)
    engine.handle_timer(1.0)
    engine.handle_timer(5.0)
    assert sent(engine) == b""
    engine.accept(2)
    engine.handle_timer(6.0)
    engine.receive_data(message(3))
    engine.accept(3)
    engine.handle_timer(6.25)
    assert sent(engine) == b""
    assert engine.next_timer() == 6.5
    engine.handle_timer(6.5)
    assert sent(engine) == ack(3, 3)


def test_its_values_are_texts_and_get_their_type() -> None:
    engine = serving(ACKS)
    engine.receive_data(message(1, properties=b"first-name:Tj%C3%B6nas%20B%3Bc;"))
    (run,) = engine.events()
    assert isinstance(run, MicroMessageRun)
    assert run.shape.values == {"first-name": "Tjönas B;c"}
    assert run.shape.properties == b"first-name:TTj%C3%B6nas%20B%3Bc;"
    assert run.contents[0] == b"\0\x20" + run.shape.properties + b"\2hi"


@pytest.mark.parametrize(
    ("properties", "written"),
    [({"a": 5}, b"a:5;"), ({"name": "ö"}, b"name:%C3%B6;"), ({"a": 5, "b": 6}, b""), ({}, b"")],
)
def test_it_gets_one_property_at_most_and_without_a_type(properties: dict[str, object], written: bytes) -> None:
    engine = serving(ACKS)
    octets = encode_properties(properties)  # type: ignore[arg-type]
    engine.send_messages("queue", octets, [b"hi"])
    assert sent(engine) == message(1, properties=written)
    content = len(octets).to_bytes(2, "big") + octets + b"\2hi"
    engine.send_contents("queue", [content], properties_stop=2 + len(octets), body_start=3 + len(octets))
    assert sent(engine) == message(2, properties=written)


def test_it_gets_no_large_message() -> None:
    engine = serving()
    engine.send_messages("queue", b"", [bytes(SHARPMESSAGING_BODY)])
    with pytest.raises(LocalProtocolError, match="can be sent 16384"):
        engine.send_messages("queue", b"", [bytes(SHARPMESSAGING_BODY + 1)])


def test_it_gets_no_commands_and_no_heartbeats() -> None:
    engine = asking()
    with pytest.raises(LocalProtocolError, match="has no pub-sub"):
        engine.subscribe("topic/a")
    sent(engine)
    engine.handle_timer(1000.0)
    engine.handle_timer(2000.0)
    assert sent(engine) == b""
    assert engine.state == "open"


def test_type_goes_before_the_first_message_that_has_it_and_only_where_it_can_be_read() -> None:
    engine = serving()
    name = "A.B, C"
    octets = encode_properties({"type": name})
    engine.send_messages("queue", octets, [b"1"])
    engine.send_messages("queue", octets, [b"2"])
    expected = b"\2\1\6" + name.encode() + message(1, b"1") + message(2, b"2")
    assert sent(engine) == expected
    engine.send_messages("queue", b"", [b"3"])
    assert sent(engine) == message(3, b"3")  # it could not be told that there is none
    long = encode_properties({"type": "x" * 256})
    engine.send_messages("queue", long, [b"4"])
    assert sent(engine) == message(4, b"4")


def test_early_repetitions_under_old_numbers_are_dropped() -> None:
    engine = serving()
    engine.receive_data(b"".join(map(message, range(1, 11))))
    engine.accept(10)
    engine.receive_data(b"".join(map(message, range(5, 11))) + message(11, b"new"))
    assert bodies(engine.events())[10:] == [b"new"]
