"""The server's side: messages in any cut, acks, commands, a log-in, extensions of one's own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.micromsg.wire import (
    ack,
    bodies,
    command,
    error,
    extension,
    flat,
    handshake,
    message,
    named,
    pair,
    sent,
    serving,
    talk,
)
from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg import (
    DEFAULT_OPTIONAL,
    CommandAnswered,
    EndOfStream,
    ErrorReceived,
    Event,
    ExtensionReceived,
    Failed,
    FilterCondition,
    HandshakeCompleted,
    MessagesAcked,
    MicroMessageRun,
    MicroMsgServer,
    SASLResponded,
    SASLStarted,
    Settings,
    SubscribeAsked,
    UnsubscribeAsked,
)

KNOWN = Settings(optional=(*DEFAULT_OPTIONAL, *named("json", "dotnet", "x-mine", "x-sasl")), mechanisms=("PLAIN",))
EXTENSIONS = b"batch-ack:max-count=1000;pub-sub;dotnet;x-mine;x-reply;x-heartbeat"

CONVERSATION = b"".join(
    (
        handshake(b"batch-ack", b"pub-sub", version=b"\1\7"),
        handshake(EXTENSIONS),
        *(message(number, b"body %d" % number, properties=b"a:N10;") for number in range(1, 30)),
        *(message(number, b"same length", properties=b"a:N%d;" % (number % 3)) for number in range(30, 60)),
        message(60, b"x" * 300, destination=b"topic/\xc3\xb6"),
        message(61, b""),
        command(b"subscribe;destination=topic%2Forders,filter=a%3EN5,id=s1"),
        message(62, b"first ", continued=True),
        extension(4, b"mine"),
        message(62, b"second ", destination=b"", continued=True),
        message(62, b"third", destination=b""),
        extension(3, b"System.String"),
        message(63, b"typed"),
        message(100, b"jumped"),
        message(100, b"again"),
        message(101, b"y" * 300),
        command(b"unsubscribe;id=s1"),
        extension(6, b""),
        error(b"200 bye"),
    )
)


def whole(data: bytes, cuts: list[int]) -> tuple[list[object], bytes]:
    """Return what comes of a conversation in pieces, and what is sent."""
    engine, position, number = MicroMsgServer(now=0.0, settings=KNOWN), 0, 0
    heard: list[Event] = []
    while position < len(data):
        step = cuts[number % len(cuts)]
        engine.receive_data(data[position : position + step])
        position, number = position + step, number + 1
        heard += engine.events()
    return flat(heard), sent(engine)


def test_conversation_is_understood() -> None:
    found, octets = whole(CONVERSATION, [len(CONVERSATION)])
    messages = [each for each in found if isinstance(each, tuple)]
    assert [each[0] for each in messages] == list(range(1, 66))
    assert messages[0] == (1, "queue", {"a": 10}, b"\0\6a:N10;\6body 1")
    assert messages[61] == (62, "queue", {}, b"\0\0\0\0\0\x12first second third")
    assert messages[62] == (63, "queue", {"type": "System.String"}, b"\0\x14type:TSystem.String;\5typed")
    assert messages[63][3].endswith(b"jumped")
    others = [each for each in found if not isinstance(each, tuple)]
    assert [type(each) for each in others] == [
        HandshakeCompleted,
        SubscribeAsked,
        ExtensionReceived,
        UnsubscribeAsked,
        ErrorReceived,
    ]
    assert octets[:2] == b"\1\0"


def test_conversation_octet_by_octet_is_the_same() -> None:
    assert whole(CONVERSATION, [1]) == whole(CONVERSATION, [len(CONVERSATION)])


@given(st.lists(st.integers(1, 400), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_conversation_in_any_cut_is_the_same(cuts: list[int]) -> None:
    assert whole(CONVERSATION, cuts) == whole(CONVERSATION, [len(CONVERSATION)])


# Messages


def test_messages_with_one_destination_are_one_run() -> None:
    engine = serving(b"batch-ack:max-count=1000")
    engine.receive_data(b"".join(message(number, b"x" * (number % 7)) for number in range(1, 500)))
    (run,) = engine.events()
    assert isinstance(run, MicroMessageRun)
    assert (run.first, run.last, len(run.contents), run.shapes) == (1, 499, 499, None)
    assert run.size == sum(map(len, run.contents))
    later = run.behind(400)
    assert (later.first, later.last, later.size) == (401, 499, sum(map(len, run.contents[400:])))


def test_messages_that_differ_in_properties_are_one_run_of_several_shapes() -> None:
    engine = serving(b"batch-ack:max-count=1000")
    engine.receive_data(b"".join(message(number, properties=b"a:N%d;" % (number // 2)) for number in range(2, 8)))
    (run,) = engine.events()
    assert isinstance(run, MicroMessageRun)
    assert run.shapes is not None
    assert [shape.values["a"] for shape in run.shapes] == [1, 1, 2, 2, 3, 3]
    assert run.shapes[0] is run.shape
    parts = list(run.alike())
    assert [(part.first, len(part.contents), part.shapes) for part in parts] == [
        (1, 2, None),
        (3, 2, None),
        (5, 2, None),
    ]
    assert run.behind(3).shapes == run.shapes[3:]


def test_long_run_ends_where_the_properties_change() -> None:
    engine = serving(b"batch-ack:max-count=1000")
    data = [message(number, properties=b"a:N1;") for number in range(1, 100)]
    engine.receive_data(b"".join(data) + message(100, properties=b"a:N2;"))
    runs = engine.events()
    assert [(run.first, len(run.contents)) for run in runs if isinstance(run, MicroMessageRun)] == [(1, 99), (100, 1)]


def test_runs_end_where_the_destination_changes() -> None:
    engine = serving(b"batch-ack:max-count=1000")
    engine.receive_data(message(1) + message(2, destination=b"other") + message(3))
    runs = [run for run in engine.events() if isinstance(run, MicroMessageRun)]
    assert [(run.first, run.shape.destination) for run in runs] == [(1, "queue"), (2, "other"), (3, "queue")]
    assert runs[0].shape is runs[2].shape


def test_sequence_numbers_go_on_with_1_behind_65535() -> None:
    engine = serving(b"batch-ack:max-count=1000")
    position = 0
    data = b"".join(message(number % 65535 + 1, b"%d" % number) for number in range(70_000))
    size, found = 0, 0
    while position < len(data):
        engine.receive_data(data[position : position + 8000])
        position += 8000
        for run in engine.events():
            assert isinstance(run, MicroMessageRun)
            assert run.first == found + 1
            found = run.last
            size += len(run.contents)
            engine.accept(run.last)
    assert size == found == 70_000
    assert engine.statistics().jumps == 0
    engine.acknowledge_now()
    assert sent(engine).endswith(ack(1, 70_000 - 65535))


def test_sender_numbers_messages_on_behind_65535() -> None:
    one, other = pair()
    heard: list[Event] = []
    for _ in range(70):
        one.send_messages("queue", b"", [b"x"] * 1000)
        heard += talk(one, other)[1]
        other.accept(one.sent)
        talk(one, other)
    assert one.sent == 70_000
    assert len(bodies(heard)) == 70_000
    assert other.statistics().jumps == 0
    assert one.room == 1000


def test_message_in_several_frames_is_one() -> None:
    one, other = pair(client_settings=Settings(max_payload=256))
    body = bytes(range(256)) * 3 + b"end"
    one.send_messages("queue", b"a:N1;", [b"x", body, b"y"])
    (run, *others) = talk(one, other)[1]
    assert others == []
    assert bodies([run]) == [b"x", body, b"y"]
    assert one.sent == 3


def test_frames_that_are_sent_have_at_most_a_mib() -> None:
    large = Settings(max_payload=4 << 20)
    one, other = pair(client_settings=large, server_settings=large)
    one.send_messages("queue", b"", [bytes(3 << 19)])
    octets = sent(one)
    assert octets[:1] == b"\x18"
    assert octets[11:15] == (1 << 20).to_bytes(4, "big")
    other.receive_data(octets)
    assert bodies(other.events()) == [bytes(3 << 19)]


def test_reassembled_message_is_forwarded_as_it_came() -> None:
    small = Settings(max_payload=256)
    one, other = pair(client_settings=small, server_settings=small)
    one.send_messages("queue", b"a:N1;", [b"z" * 1000])
    (run,) = talk(one, other)[1]
    assert isinstance(run, MicroMessageRun)
    back = run.shape.properties_stop, run.shape.body_start
    other.send_contents("queue", run.contents, properties_stop=back[0], body_start=back[1])
    assert bodies(talk(one, other)[0]) == [b"z" * 1000]


# Acks


def test_acks_are_sent_when_half_a_window_is_safe() -> None:
    engine = serving(b"batch-ack:max-count=10")
    engine.receive_data(b"".join(map(message, range(1, 9))))
    engine.accept(4)
    assert sent(engine) == b""
    engine.accept(4, [6, 7])
    assert sent(engine) == b""
    engine.accept(5)
    assert sent(engine) == ack(1, 7)


def test_ack_goes_at_once_where_there_is_no_delay() -> None:
    engine = serving(b"batch-ack:max-count=100", Settings(ack_delay=0.0))
    engine.receive_data(message(1))
    engine.accept(1)
    assert sent(engine) == ack(1, 1)
    engine.accept(1)
    assert sent(engine) == b""


def test_single_acks_are_a_window_of_one() -> None:
    engine = serving(b"ack")
    engine.receive_data(message(1))
    engine.accept(1)
    assert sent(engine) == ack(1, 1)
    engine.send_messages("queue", b"", [b"x"])
    with pytest.raises(LocalProtocolError, match="the window has room for 0"):
        engine.send_messages("queue", b"", [b"x"])


def test_window_gets_room_by_acks() -> None:
    engine = serving(b"batch-ack:max-count=10")
    engine.send_messages("queue", b"", [b"x"] * 8)
    assert (engine.room, engine.sent) == (2, 8)
    engine.receive_data(ack(1, 3) + ack(1, 5))
    assert engine.events() == [MessagesAcked(3, 3), MessagesAcked(5, 2)]
    assert engine.room == 7


def test_stale_acks_are_counted_and_change_nothing() -> None:
    engine = serving(b"batch-ack:max-count=10")
    engine.send_messages("queue", b"", [b"x"] * 2)
    engine.receive_data(ack(1, 1) + ack(1, 1) + ack(1, 0) + ack(1, 9))
    assert engine.events() == [MessagesAcked(1, 1)]
    assert engine.statistics().stale_acks == 3


def test_repeated_messages_are_dropped_and_acknowledged_again() -> None:
    engine = serving(b"batch-ack:max-count=10")
    engine.receive_data(b"".join(map(message, range(1, 6))))
    engine.accept(5)
    assert sent(engine) == ack(1, 5)
    engine.events()
    engine.receive_data(message(4) + message(5) + message(6, b"new"))
    assert bodies(engine.events()) == [b"new"]
    assert sent(engine) == ack(1, 5)
    assert engine.statistics().repeats == 2


def test_jump_is_taken_and_acknowledged_under_its_number() -> None:
    engine = serving(b"batch-ack:max-count=10")
    engine.receive_data(message(1) + message(500) + message(501))
    assert len(bodies(engine.events())) == 3
    engine.accept(2)
    engine.acknowledge_now()
    assert sent(engine) == ack(1, 500)
    assert engine.statistics().jumps == 1


def test_without_acks_numbers_only_have_to_be_numbers() -> None:
    engine = serving(b"")
    engine.receive_data(b"".join(message(number) for number in (7, 7, 3, 9, 10, 11)))
    assert len(bodies(engine.events())) == 6
    engine.accept(6)
    assert sent(engine) == b""


# Commands


def test_commands_are_answered_where_that_was_agreed() -> None:
    one, other = pair()
    number = one.subscribe("topic/orders", [FilterCondition("a", "greater", 5)], "s1")
    assert talk(one, other)[1] == [SubscribeAsked(1, "topic/orders", (FilterCondition("a", "greater", 5),), "s1")]
    other.answer_command(number, 200, "done")
    assert one.unsubscribe(subscription_id="s1") == 2
    heard = talk(one, other)
    assert heard == ([CommandAnswered(1, 200, "done")], [UnsubscribeAsked(2, "", "s1")])
    other.answer_command(2, 404, "there is none")
    assert talk(one, other)[0] == [CommandAnswered(2, 404, "there is none")]
    assert other.state == "open"


def test_bad_command_is_answered_by_the_engine_where_that_was_agreed() -> None:
    engine = serving(b"pub-sub;x-reply")
    engine.receive_data(command(b"subscribe;destination=a,filter=a%3C%3DTx") + command(b"dance") + message(1))
    assert len(bodies(engine.events())) == 1
    found = sent(engine)
    assert b"\0\x01400 condition 'a<=Tx'" in found
    assert b"\0\x02501 command 'dance' is unknown" in found


def test_command_without_answers_is_silent_or_the_end() -> None:
    engine = serving(b"pub-sub")
    engine.receive_data(command(b"subscribe;destination=a"))
    engine.answer_command(1, 200, "done")
    assert sent(engine) == b""
    engine.answer_command(1, 404, "there is no 'a'")
    assert sent(engine) == error(b"404 there is no 'a'")
    assert engine.outbox.finished
    engine.answer_command(1, 200, "late")
    assert sent(engine) == b""


def test_answer_to_no_command_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="numbered 1 to"):
        serving(b"pub-sub").answer_command(0, 200, "")


# Extensions


def test_own_extensions_carry_frames_both_ways() -> None:
    one, other = pair("x-mine")
    one.send_extension("x-mine", b"hello")
    other.send_extension("x-mine", b"x" * 300)
    heard = talk(one, other)
    assert heard == ([ExtensionReceived("x-mine", b"x" * 300)], [ExtensionReceived("x-mine", b"hello")])


@pytest.mark.parametrize("name", ["x-other", "batch-ack", "x-heartbeat", "json"])
def test_frames_of_extensions_that_are_not_ones_own_are_our_own_mistake(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="was not agreed, or is the engine's own"):
        serving(b"batch-ack;json;x-heartbeat", KNOWN).send_extension(name, b"")


def test_extension_frame_is_no_longer_than_any_other() -> None:
    with pytest.raises(LocalProtocolError, match="at most 256 fit"):
        serving(b"x-mine", Settings(optional=named("x-mine"), max_payload=256)).send_extension("x-mine", bytes(257))


def test_frames_of_extensions_without_frames_are_skipped() -> None:
    engine = serving(b"json;pub-sub;ack;batch-ack;x-reply", KNOWN)
    engine.receive_data(b"".join(extension(number, b"?") for number in (1, 2, 3, 5)) + message(1))
    assert len(bodies(engine.events())) == 1
    assert engine.statistics().skipped == 4


# The log-in


def test_client_logs_in_by_sasl() -> None:
    engine = MicroMsgServer(now=0.0, settings=KNOWN)
    engine.receive_data(handshake(b"x-sasl"))
    assert b"x-sasl:mechanisms=PLAIN" in sent(engine)
    engine.receive_data(handshake(b"x-sasl") + extension(1, b"\1PLAIN\0\0guest\0secret"))
    assert [type(event) for event in engine.events()] == [HandshakeCompleted, SASLStarted]
    assert engine.state == "judging"
    engine.challenge(b"more")
    assert sent(engine) == extension(1, b"\2more")
    engine.receive_data(extension(1, b"\3answer"))
    assert engine.events() == [SASLResponded(b"answer")]
    engine.welcome(b"v=1")
    assert sent(engine) == extension(1, b"\4v=1")
    assert engine.state == "open"
    engine.receive_data(message(1))
    assert len(bodies(engine.events())) == 1


def test_refused_log_in_is_an_error() -> None:
    engine = MicroMsgServer(now=0.0, settings=KNOWN)
    engine.receive_data(handshake(b"x-sasl") + handshake(b"x-sasl") + extension(1, b"\1PLAIN\0\0a\0b"))
    sent(engine)
    engine.fail(403, "no")
    assert sent(engine) == error(b"403 no")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (message(1), 401),
        (command(b"subscribe;destination=a"), 401),
        (extension(2, b"mine"), 401),
        (extension(1, b""), 401),
        (extension(1, b"\3answer"), 401),
        (extension(1, b"\4"), 401),
        (extension(1, b"\1PLAIN"), 400),
    ],
)
def test_nothing_else_comes_before_the_log_in(data: bytes, code: int) -> None:
    engine = MicroMsgServer(now=0.0, settings=KNOWN)
    engine.receive_data(handshake(b"x-sasl;x-mine;pub-sub") + handshake(b"x-sasl;x-mine;pub-sub") + data)
    _, event = engine.events()
    assert isinstance(event, Failed)
    assert event.code == code


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(SASLStarted("PLAIN", b"\0guest\0secret"))
    assert "secret" not in repr(SASLResponded(b"secret"))


def test_sasl_out_of_turn_is_our_own_mistake() -> None:
    engine = serving(b"batch-ack")
    for call in (engine.challenge, engine.welcome):
        with pytest.raises(LocalProtocolError, match="has no place in state 'open'"):
            call(b"")


# The end


def test_end_of_stream_tells_what_is_not_whole() -> None:
    engine = serving()
    engine.receive_data(message(1)[:7])
    assert engine.unfinished == 7
    engine.receive_data(b"")
    assert engine.events() == [EndOfStream(7)]
    assert (engine.state, engine.outbox.finished, engine.unfinished) == ("closed", True, 0)
    engine.receive_data(message(1))
    engine.receive_data(b"")
    assert engine.events() == []


def test_commands_that_come_too_late_are_dropped() -> None:
    engine = serving(b"batch-ack;pub-sub;x-mine", KNOWN)
    engine.receive_data(message(1))
    engine.close()
    engine.send_messages("queue", b"", [b"x"])
    engine.send_contents("queue", [b"\0\0\1x"], properties_stop=2, body_start=3)
    engine.send_extension("x-mine", b"")
    engine.answer_command(1, 200, "")
    engine.challenge(b"")
    engine.welcome(b"")
    engine.accept(1)
    engine.acknowledge_now()
    engine.fail(500, "late")
    engine.close()
    assert sent(engine) == b""
    assert engine.next_timer() is None


def test_text_of_an_error_is_cut_between_characters() -> None:
    engine = serving()
    engine.fail(400, "ö" * 300)
    octets = sent(engine)
    assert octets[1] == len(octets) - 2 == 254
    assert octets[2:].decode() == "400 " + "ö" * 125


@pytest.mark.parametrize("text", ["", "x" * 300, "ö" * 200])
def test_destination_fits_its_length(text: str) -> None:
    engine = serving()
    if len(text.encode()) > 255:
        with pytest.raises(LocalProtocolError, match="255 fit"):
            engine.send_messages(text, b"", [b"x"])
    else:
        engine.send_messages(text, b"", [b"x"])


def test_messages_are_too_large_or_too_long_by_our_own_mistake() -> None:
    engine = serving(settings=Settings(max_payload=256, max_message=512))
    with pytest.raises(LocalProtocolError, match="can be sent 512"):
        engine.send_messages("queue", b"", [b"x", bytes(513)])
    with pytest.raises(LocalProtocolError, match="can be sent 512"):
        engine.send_contents("queue", [b"\0\0\0\0\2\1" + bytes(513)], properties_stop=2, body_start=6)
    with pytest.raises(LocalProtocolError, match="room for 65535"):
        engine.send_messages("queue", bytes(65536), [b""])
    engine.send_messages("queue", b"", [])
    engine.send_contents("queue", [], properties_stop=2, body_start=3)
    assert sent(engine) == b""
    assert MicroMsgServer(now=0.0).statistics().jumps == 0


def test_messages_cannot_be_sent_before_the_handshake_is_over() -> None:
    with pytest.raises(LocalProtocolError, match="has no place in state 'hello'"):
        MicroMsgServer(now=0.0).send_messages("queue", b"", [b"x"])
