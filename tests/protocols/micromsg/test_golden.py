"""Golden octets: written by hand from the specification, or as the program of 2014 has sent them."""

from protocols.micromsg.wire import bodies, client, handshake, sent, serving
from triomq.protocols.micromsg import (
    ErrorReceived,
    MessagesAcked,
    MicroMessageRun,
    MicroMsgServer,
    Settings,
    encode_properties,
)

from .wire import named

MESSAGE = bytes.fromhex("00 0001 05 7175657565 0006 613a4e31303b 02 6869")
LARGE = bytes.fromhex("08 0001 00 0000 00000100") + bytes(256)
ACK = bytes.fromhex("02 03 02 0004")
DOTNET = (
    bytes.fromhex("02 01 5a")
    + b"System.String, mscorlib, Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089"
)
ERROR = bytes.fromhex("04 09 6e6f207468616e6b73")


def test_message_is_read() -> None:
    engine = serving(b"batch-ack")
    engine.receive_data(MESSAGE)
    (run,) = engine.events()
    assert isinstance(run, MicroMessageRun)
    assert (run.first, run.last, run.shapes) == (1, 1, None)
    assert (run.shape.destination, run.shape.properties, run.shape.values) == ("queue", b"a:N10;", {"a": 10})
    assert run.contents == [MESSAGE[9:]]
    assert run.size == 11
    assert run.shape.body(run.contents[0]) == b"hi"


def test_message_is_written() -> None:
    engine = client()
    engine.send_messages("queue", encode_properties({"a": 10}), [b"hi"])
    assert sent(engine) == MESSAGE


def test_message_of_256_octets_is_large() -> None:
    engine = serving(b"batch-ack")
    engine.receive_data(LARGE)
    assert bodies(engine.events()) == [bytes(256)]
    writer = client()
    writer.send_messages("", b"", [bytes(256)])
    assert sent(writer) == LARGE


def test_ack_names_the_last_of_its_messages() -> None:
    settings = Settings(optional=named("json", "dotnet", "batch-ack"))
    engine = serving(b"json;dotnet;batch-ack", settings)
    engine.send_messages("queue", b"", [b"x"] * 5)
    sent(engine)
    engine.receive_data(ACK)
    assert engine.events() == [MessagesAcked(4, 4)]
    engine.receive_data(b"\0\0\1\0\0\0\0\0\0\2\0\0\0\0\0\0\3\0\0\0\0\0\0\4\0\0\0\0\0\0\5\0\0\0\0")
    engine.accept(4)
    engine.acknowledge_now()
    assert sent(engine) == ACK


def test_type_of_dotnet_is_a_property() -> None:
    engine = serving(b"dotnet", Settings(optional=named("dotnet")))
    engine.receive_data(DOTNET + MESSAGE)
    (run,) = engine.events()
    assert isinstance(run, MicroMessageRun)
    assert run.shape.values == {"a": 10, "type": DOTNET[3:].decode()}
    assert b"a:N10;type:TSystem.String%2C%20mscorlib" in run.contents[0]


def test_error_is_the_end() -> None:
    engine = serving()
    engine.receive_data(ERROR)
    assert engine.events() == [ErrorReceived(0, "no thanks")]
    assert engine.outbox.finished
    assert sent(engine) == b""


def test_error_is_written() -> None:
    engine = serving()
    engine.fail(404, "there is no queue 'ö'")
    assert sent(engine) == b"\x04\x1a404 there is no queue '\xc3\xb6'"
    assert engine.outbox.finished


def test_handshake_of_sharpmessaging_is_read() -> None:
    first = (
        bytes.fromhex("01 01 00 04 6d6f6e6f 0034")
        + b"dotnet;json;ack:MessagesPerAck=10,AckExpireTime=1000"
        + b"\0\4json"
    )
    engine = MicroMsgServer(now=0.0, settings=Settings(optional=named("dotnet", "json", "ack")))
    engine.receive_data(first)
    assert engine.is_sharpmessaging
    assert engine.peer_identity == "mono"
    reply = b"dotnet;json;ack:max-count=1000,MessagesPerAck=1000,AckExpireTime=250"
    assert sent(engine) == handshake(reply, identity=b"triomq")
