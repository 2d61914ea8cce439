"""The three handshakes: golden octets, who requires and suggests what, and what is agreed."""

import pytest

from protocols.micromsg.wire import client, handshake, named, pair, sent, talk
from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg import (
    DEFAULT_OPTIONAL,
    ErrorReceived,
    Failed,
    HandshakeCompleted,
    HandshakeExtension,
    MicroMsgClient,
    MicroMsgServer,
    Settings,
)
from triomq.protocols.micromsg.handshake import Handshake, read_handshake, write_handshake

HULK = bytes.fromhex("01 00 00 04 68756c6b 000b 6a736f6e3b646f746e6574 0000")
SERVER = bytes.fromhex("01 00 00 05 7372766572 0000 0009 62617463682d61636b")
CHOICE = bytes.fromhex("01 00 00 04 68756c6b 000b 6a736f6e3b646f746e6574 0009 62617463682d61636b")
"""The specification's example, with the lengths that its texts have."""

ONLY_BATCH = Settings(identity="srver", optional=named("batch-ack", "json", "dotnet"), window=10)


def names(engine: MicroMsgServer | MicroMsgClient) -> list[str]:
    return [extension.name for extension in engine.extensions]


def completed(event: object) -> HandshakeCompleted:
    assert isinstance(event, HandshakeCompleted), event
    return event


def lists(octets: bytes) -> tuple[list[str], list[str]]:
    """Return the names in the lists of one handshake."""
    found = read_handshake(octets, 4096)
    assert found is not None
    assert found[1] == len(octets)
    return [each.name for each in found[0].required], [each.name for each in found[0].optional]


def test_handshake_is_written_as_in_the_specification() -> None:
    assert write_handshake("hulk", named("json", "dotnet"), ()) == HULK == handshake(b"json;dotnet")
    assert write_handshake("srver", (), named("batch-ack")) == SERVER
    assert write_handshake("hulk", named("json", "dotnet"), named("batch-ack")) == CHOICE


def test_handshake_is_read_once_it_is_whole() -> None:
    for length in range(1, len(HULK)):
        assert read_handshake(HULK[:length], 4096) is None
    assert read_handshake(HULK + b"rest", 4096) == (Handshake(1, 0, "hulk", named("json", "dotnet"), ()), len(HULK))


def test_server_agrees_with_the_client_of_the_specification() -> None:
    engine = MicroMsgServer(now=0.0, settings=ONLY_BATCH)
    engine.receive_data(HULK)
    assert engine.events() == []
    assert lists(sent(engine)) == (["json", "dotnet"], ["batch-ack"])
    engine.receive_data(CHOICE)
    event = completed(engine.events()[0])
    assert (event.identity, event.version, event.window) == ("hulk", (1, 0), 10)
    assert names(engine) == ["json", "dotnet", "batch-ack"]
    assert (engine.state, engine.window, engine.peer_identity) == ("open", 10, "hulk")


def test_client_agrees_with_the_server_of_the_specification() -> None:
    settings = Settings(identity="hulk", required=named("json", "dotnet"), optional=named("batch-ack"), window=10)
    engine = MicroMsgClient(now=0.0, settings=settings)
    assert lists(sent(engine)) == (["json", "dotnet"], ["batch-ack"])
    # It does not repeat what the client requires.
    engine.receive_data(SERVER)
    assert completed(engine.events()[0]).identity == "srver"
    assert lists(sent(engine)) == (["json", "dotnet"], ["batch-ack"])
    assert names(engine) == ["json", "dotnet", "batch-ack"]


def test_each_handshake_goes_out_as_one_piece() -> None:
    one, other = MicroMsgClient(now=0.0), MicroMsgServer(now=0.0)
    (first,) = one.data_to_send()
    other.receive_data(bytes(first))
    (reply,) = other.data_to_send()
    one.receive_data(bytes(reply))
    (choice,) = one.data_to_send()
    other.receive_data(bytes(choice))
    assert other.state == one.state == "open"


def test_each_side_may_require_what_the_other_knows() -> None:
    one, other = pair(
        client_settings=Settings(required=named("json"), optional=named("x-mine", "pub-sub")),
        server_settings=Settings(required=named("x-mine"), optional=named("pub-sub", "json", "dotnet")),
    )
    assert names(one) == names(other) == ["json", "x-mine", "pub-sub"]


def test_extensions_are_numbered_as_chosen_the_required_ones_first() -> None:
    engine = MicroMsgServer(now=0.0, settings=Settings(optional=named("json", "dotnet", "ack", "pub-sub")))
    engine.receive_data(handshake() + handshake(b"dotnet;ack", b"json;dotnet;pub-sub"))
    assert names(engine) == ["dotnet", "ack", "json", "pub-sub"]


def test_peers_say_something_about_their_extensions() -> None:
    mine = HandshakeExtension("x-mine", {"color": "red"})
    theirs = HandshakeExtension("x-mine", {"color": "green"})
    one = MicroMsgClient(now=0.0, settings=Settings(required=(mine,)))
    other = MicroMsgServer(now=0.0, settings=Settings(optional=(theirs,)))
    heard_by_client, heard_by_server = talk(one, other)
    assert theirs in completed(heard_by_client[0]).extensions
    assert mine in completed(heard_by_server[0]).extensions


def test_extension_has_the_name_that_the_client_has_for_it() -> None:
    engine = MicroMsgServer(now=0.0)
    engine.receive_data(handshake(b"pubsub"))
    required, optional = lists(sent(engine))
    assert required == ["pubsub"]
    assert "pub-sub" not in optional
    engine.receive_data(handshake(b"pubsub"))
    assert engine.speaks("pub-sub")


# Versions


@pytest.mark.parametrize("version", [b"\1\0", b"\1\1", b"\1\xff"])
def test_minor_versions_are_as_low_as_ours(version: bytes) -> None:
    engine = MicroMsgServer(now=0.0)
    engine.receive_data(handshake(version=version) + handshake(version=version))
    assert completed(engine.events()[0]).version == (1, 0)
    assert sent(engine)[:2] == b"\1\0"


def test_later_version_is_answered_with_ours_and_the_client_decides() -> None:
    engine = MicroMsgServer(now=0.0)
    engine.receive_data(handshake(version=b"\2\0"))
    assert sent(engine)[:2] == b"\1\0"
    engine.receive_data(handshake(version=b"\2\0"))
    assert sent(engine).startswith(b"\4")
    assert isinstance(engine.events()[0], Failed)


def test_client_leaves_a_server_of_another_version() -> None:
    engine = MicroMsgClient(now=0.0)
    sent(engine)
    engine.receive_data(handshake(version=b"\2\0"))
    assert sent(engine)[2:].startswith(b"505 the server speaks major version 2")
    assert engine.outbox.finished


# What is not there


def test_client_leaves_a_server_that_requires_what_it_does_not_know() -> None:
    engine = MicroMsgClient(now=0.0)
    sent(engine)
    engine.receive_data(handshake(b"x-strange;json"))
    assert sent(engine)[2:] == b"501 these extensions are not supported: x-strange, json"


def test_client_hears_why_it_is_refused() -> None:
    one = MicroMsgClient(now=0.0, settings=Settings(required=named("x-strange")))
    heard_by_client, heard_by_server = talk(one, MicroMsgServer(now=0.0))
    assert heard_by_client == [ErrorReceived(501, "these extensions are not supported: x-strange")]
    assert heard_by_server == [Failed(501, "these extensions are not supported: x-strange")]


def test_optional_extensions_that_are_unknown_are_passed_over() -> None:
    engine = MicroMsgServer(now=0.0)
    engine.receive_data(handshake(b"", b"x-strange;Json;a/b"))
    assert "x-strange" not in str(lists(sent(engine)))
    assert engine.events() == []


# Windows


@pytest.mark.parametrize(
    ("ours", "theirs", "window"), [(1000, b"batch-ack:max-count=100", 100), (50, b"batch-ack:max-count=100", 50)]
)
def test_client_chooses_the_smaller_window(ours: int, theirs: bytes, window: int) -> None:
    engine = MicroMsgClient(now=0.0, settings=Settings(window=ours))
    sent(engine)
    engine.receive_data(handshake(b"", theirs + b";ack;json"))
    assert handshake(b"", b"batch-ack:max-count=%d" % window, identity=b"triomq") == sent(engine)
    assert engine.window == engine.room == window


@pytest.mark.parametrize(
    ("reply", "window"), [(b"batch-ack", 10), (b"ack", 1), (b"ack:count=7", 7), (b"ack;batch-ack", 10), (b"json", 0)]
)
def test_client_takes_one_kind_of_acks(reply: bytes, window: int) -> None:
    engine = client(reply)
    assert engine.window == window
    assert len([name for name in names(engine) if name.endswith("ack")]) == bool(window)


@pytest.mark.parametrize(
    ("choice", "window"),
    [(b"batch-ack", 10), (b"batch-ack:max-count=3", 3), (b"batch-ack:max-count=9999", 1000), (b"ack", 1), (b"", 0)],
)
def test_server_takes_the_window_that_the_client_chooses_up_to_its_own(choice: bytes, window: int) -> None:
    engine = MicroMsgServer(now=0.0)
    engine.receive_data(handshake() + handshake(choice))
    assert completed(engine.events()[0]).window == engine.window == window


def test_required_ack_is_not_replaced_by_an_optional_one() -> None:
    one, other = pair(
        client_settings=Settings(required=named("ack"), optional=named("batch-ack")),
    )
    assert names(one) == names(other) == ["ack"]
    assert one.window == other.window == 1


def test_heartbeats_are_as_rare_as_either_side_wants() -> None:
    one, other = pair(client_settings=Settings(heartbeat=5.0), server_settings=Settings(heartbeat=20.0))
    assert "x-heartbeat" in names(one)
    found = next(each for each in other.extensions if each.name == "x-heartbeat")
    assert found.interval == 20.0
    one, other = pair(client_settings=Settings(heartbeat=0.0))
    assert "x-heartbeat" not in names(other)


# Settings


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"window": 0}, "window is 0"),
        ({"window": 32768}, "it takes 1 to 32767"),
        ({"identity": "ö"}, "is not ASCII"),
        ({"identity": "x" * 256}, "is not ASCII of at most 255"),
        ({"max_payload": 100}, "max_payload is 100"),
        ({"max_payload": 1 << 25}, "max_message"),
        ({"heartbeat": 0.01}, "heartbeat is 0.01"),
        ({"heartbeat": 0.0, "required": named("x-heartbeat"), "optional": ()}, "heartbeat is 0"),
        ({"required": named("json", "json")}, "listed twice"),
        ({"required": named("batch-ack")}, "extensions batch-ack are listed twice"),
        ({"optional": named("Json")}, "is no extension"),
        ({"optional": named(*(f"x-{number}" for number in range(256)))}, "256 extensions"),
    ],
)
def test_settings_that_nobody_could_speak_are_refused(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        Settings(**wrong)  # type: ignore[arg-type]


def test_sides_say_nothing_of_every_message_unless_they_are_asked_to() -> None:
    known = {extension.name for extension in DEFAULT_OPTIONAL}
    assert not known & {"json", "dotnet", "x-sasl"}
