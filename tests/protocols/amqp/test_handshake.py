"""Opening a connection, from both sides."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols import decode_table
from triomq.protocols.amqp import (
    AMQPEngine,
    ChallengeAnswered,
    ChallengeReceived,
    ChannelOpen,
    Closed,
    Connected,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Failed,
    Login,
    LoginRequested,
    Method,
    OpenRequested,
    ServerStarted,
    Settings,
    plain,
)

from .wire import HEADER, admit, exchange, frame, last, method, sent, sent_methods

START_OK = ConnectionStartOk({"product": "test"}, "PLAIN", b"\0guest\0guest", "en_US")


def greeted(settings: Settings | None = None) -> AMQPEngine:
    server = AMQPEngine("server", now=0.0, settings=settings)
    server.receive_data(HEADER + method(0, START_OK))
    server.data_to_send()
    return server


def tuning(settings: Settings | None = None) -> AMQPEngine:
    server = greeted(settings)
    server.accept_login()
    server.data_to_send()
    server.events()
    return server


def test_server_introduces_itself() -> None:
    server = AMQPEngine("server", now=0.0, settings=Settings(mechanisms=("PLAIN", "EXTERNAL"), locales=("en_US", "no")))
    server.receive_data(HEADER)
    ((channel, start),) = sent_methods(server)
    assert channel == 0
    assert isinstance(start, ConnectionStart)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert (start.mechanisms, start.locales) == (b"PLAIN EXTERNAL", b"en_US no")
    capabilities = start.server_properties["capabilities"]
    assert isinstance(capabilities, dict)
    assert capabilities["publisher_confirms"] is True


def test_the_endpoint_judges_the_login() -> None:
    server = greeted()
    assert server.events() == [LoginRequested("PLAIN", b"\0guest\0guest", "en_US", {"product": "test"})]
    server.accept_login()
    assert sent_methods(server) == [(0, ConnectionTune(2047, 131072, 60))]


def test_the_response_of_any_mechanism_is_passed_on_as_it_is() -> None:
    server = AMQPEngine("server", now=0.0)
    response = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"
    server.receive_data(HEADER + method(0, ConnectionStartOk({}, "AMQPLAIN", response, "en_US")))
    login = last(server, LoginRequested)
    assert (login.mechanism, login.response) == ("AMQPLAIN", response)
    assert decode_table(len(response).to_bytes(4, "big") + response) == {"LOGIN": "guest", "PASSWORD": "guest"}


def test_refused_login_is_sent_and_waited_out() -> None:
    server = greeted()
    server.refuse_login("Login was refused using authentication mechanism PLAIN.")
    text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."
    assert sent_methods(server) == [(0, ConnectionClose(403, text))]
    server.receive_data(method(0, ConnectionCloseOk()))
    assert last(server, Closed) == Closed(403, text, by_peer=False)


def test_octets_sent_ahead_of_a_refusal_are_read_as_if_they_came_after_it() -> None:
    for judge in (
        lambda server: server.refuse_login("no"),
        lambda server: server.close(403, "no"),
    ):
        server = greeted()
        server.receive_data(method(0, ConnectionTuneOk(1, 4096, 0)) + method(0, ConnectionCloseOk()))
        judge(server)
        assert server.events()[1:] == [Closed(403, "ACCESS_REFUSED - no", by_peer=False)]
        assert server.outbox.finished


def challenged() -> AMQPEngine:
    server = greeted()
    server.challenge(b"prove it")
    server.events()
    server.data_to_send()
    return server


@pytest.mark.parametrize("rounds", [0, 1, 2, 7])
def test_mechanism_may_take_any_number_of_steps(rounds: int) -> None:
    client = AMQPEngine("client", now=0.0, settings=Settings(login=Login("STEPS", b"0")))
    server = AMQPEngine("server", now=0.0)
    exchange_once(client, server)
    assert last(server, LoginRequested).response == b"0"
    for step in range(rounds):
        server.challenge(b"step %d" % step)
        client.receive_data(sent(server))
        assert last(client, ChallengeReceived) == ChallengeReceived(b"step %d" % step)
        client.answer_challenge(b"answer %d" % step)
        server.receive_data(sent(client))
        assert last(server, ChallengeAnswered) == ChallengeAnswered(b"answer %d" % step)
    server.accept_login()
    assert exchange(client, server)[0][-1] == Connected(Settings().server_properties, 2047, 131072, 60)


def exchange_once(client: AMQPEngine, server: AMQPEngine) -> None:
    """Carry the header and start one way, start-ok the other."""
    server.receive_data(sent(client))
    client.receive_data(sent(server))
    server.receive_data(sent(client))


@pytest.mark.parametrize(
    ("octets", "code", "blamed"),
    [
        (method(0, ConnectionTuneOk(1, 4096, 0)), 504, (10, 31)),
        (method(0, START_OK), 504, (10, 11)),
        (method(0, ConnectionSecure(b"no, you")), 504, (10, 20)),
        (method(0, ChannelOpen()), 504, (20, 10)),
        (method(1, ChannelOpen()), 505, (0, 0)),
        (method(1, ConnectionSecureOk(b"proof")), 505, (0, 0)),
        (frame(1, 0, b"\0\x0a\0\x15\0\0\1\0"), 501, (10, 21)),
    ],
    ids=["tune-ok", "start-ok", "a challenge", "a channel", "a channel's frame", "on a channel", "a lying size"],
)
def test_challenge_is_answered_with_nothing_but_secure_ok(octets: bytes, code: int, blamed: tuple[int, int]) -> None:
    server = challenged()
    server.receive_data(octets)
    failed = last(server, Failed)
    assert (failed.code, failed.class_id, failed.method_id) == (code, *blamed)
    assert [type(word) for _, word in sent_methods(server)] == [ConnectionClose]


def test_challenge_needs_one_answer_alone() -> None:
    server = challenged()
    server.receive_data(method(0, ConnectionSecureOk(b"proof")) * 2)
    assert server.events() == [ChallengeAnswered(b"proof")]
    server.accept_login()
    assert last(server, Failed).text == "CHANNEL_ERROR - unexpected method in connection state tuning"


def test_challenged_login_may_be_refused_or_given_up() -> None:
    server = challenged()
    server.receive_data(method(0, ConnectionSecureOk(b"wrong")))
    server.refuse_login("no")
    assert sent_methods(server) == [(0, ConnectionClose(403, "ACCESS_REFUSED - no"))]
    server = challenged()
    server.receive_data(method(0, ConnectionClose(200, "too hard")))
    assert last(server, Closed) == Closed(200, "too hard", by_peer=True)


def test_challenge_does_not_put_the_end_of_the_handshake_off() -> None:
    server = challenged()
    assert server.next_timer() == 10.0
    server.handle_timer(10.0)
    assert last(server, Failed).code == 320


@pytest.mark.parametrize("word", [ConnectionSecure(b"again"), ConnectionTune(1, 4096, 0), ConnectionOpenOk()])
def test_server_waits_for_the_answer_to_its_challenge(word: Method) -> None:
    client = AMQPEngine("client", now=0.0, settings=Settings(login=Login("STEPS", b"")))
    client.receive_data(method(0, ConnectionStart(0, 9, {}, b"STEPS", b"en_US")) + method(0, ConnectionSecure(b"one")))
    client.receive_data(method(0, word))
    failed = last(client, Failed)
    assert failed.text == "CHANNEL_ERROR - unexpected method in connection state securing"


def test_client_that_was_not_challenged_has_nothing_to_answer() -> None:
    client = AMQPEngine("client", now=0.0, settings=Settings(login=Login("STEPS", b"")))
    client.receive_data(method(0, ConnectionStart(0, 9, {}, b"STEPS", b"en_US")))
    with pytest.raises(LocalProtocolError, match="in state authenticating"):
        client.answer_challenge(b"")


@pytest.mark.parametrize(
    ("tune_ok", "text"),
    [
        (ConnectionTuneOk(2047, 100, 0), "negotiated frame_max = 100 is lower than the minimum allowed value (4096)"),
        (ConnectionTuneOk(2047, 0, 0), "negotiated frame_max = 0 is higher than the maximum allowed value (131072)"),
        (
            ConnectionTuneOk(2047, 131073, 0),
            "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
        (
            ConnectionTuneOk(2048, 4096, 0),
            "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
        ),
    ],
)
def test_client_may_not_tune_above_the_offer(tune_ok: ConnectionTuneOk, text: str) -> None:
    server = tuning()
    server.receive_data(method(0, tune_ok))
    assert last(server, Failed) == Failed(530, f"NOT_ALLOWED - {text}", 10, 31)


@pytest.mark.parametrize(
    ("tune_ok", "agreed"),
    [
        (ConnectionTuneOk(2047, 131072, 60), (2047, 131072, 60)),
        (ConnectionTuneOk(3, 4096, 1), (3, 4096, 1)),
        (ConnectionTuneOk(0, 4096, 0), (2047, 4096, 0)),
        (ConnectionTuneOk(10, 4096, 600), (10, 4096, 600)),
    ],
    ids=["the offer", "less", "no wish for channels", "a slower heartbeat"],
)
def test_limits_that_the_client_tunes_hold(tune_ok: ConnectionTuneOk, agreed: tuple[int, int, int]) -> None:
    server = tuning()
    server.receive_data(method(0, tune_ok))
    assert (server.channel_max, server.frame_max, server.heartbeat) == agreed


def test_the_endpoint_judges_the_virtual_host() -> None:
    server = tuning()
    server.receive_data(method(0, ConnectionTuneOk(2047, 131072, 0)) + method(0, ConnectionOpen("/nope")))
    assert server.events() == [OpenRequested("/nope")]
    server.close(530, "vhost /nope not found", 10, 40)
    assert sent_methods(server) == [(0, ConnectionClose(530, "NOT_ALLOWED - vhost /nope not found", 10, 40))]


def test_frames_are_small_until_they_are_tuned() -> None:
    server = AMQPEngine("server", now=0.0)
    server.receive_data(HEADER + b"\x01\0\0\0\0\x13\x88")
    assert last(server, Failed).text == "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,5000,4088}"


def test_peer_may_close_in_the_middle() -> None:
    server = tuning()
    server.receive_data(method(0, ConnectionClose(200, "changed my mind")))
    assert last(server, Closed) == Closed(200, "changed my mind", by_peer=True)
    server.send_method(0, ConnectionCloseOk())
    assert sent_methods(server) == [(0, ConnectionCloseOk())]
    assert server.outbox.finished


def test_client_opens_a_connection_by_itself() -> None:
    client = AMQPEngine("client", now=0.0, settings=Settings(login=plain("u", "p"), virtual_host="/v", heartbeat=10))
    server = AMQPEngine("server", now=0.0, settings=Settings(heartbeat=20, channel_max=100, frame_max=8192))
    server.receive_data(sent(client))
    client.receive_data(sent(server))
    (started,) = client.events()
    assert isinstance(started, ServerStarted)
    assert started.mechanisms == ("PLAIN", "AMQPLAIN")
    assert started.locales == ("en_US",)
    server.receive_data(sent(client))
    assert last(server, LoginRequested).response == b"\0u\0p"
    server.accept_login()
    client.receive_data(sent(server))
    server.receive_data(sent(client))
    assert last(server, OpenRequested) == OpenRequested("/v")
    server.open_connection()
    client.receive_data(sent(server))
    connected = last(client, Connected)
    assert (connected.channel_max, connected.frame_max, connected.heartbeat) == (100, 8192, 10)
    assert connected.server_properties["product"] == "triomq"
    assert (server.channel_max, server.frame_max, server.heartbeat) == (100, 8192, 10)


def test_client_without_a_login_is_asked_for_one() -> None:
    client = AMQPEngine("client", now=0.0)
    server = AMQPEngine("server", now=0.0)
    seen, _ = exchange(client, server)
    assert isinstance(seen[-1], ServerStarted)
    client.log_in(plain("u", "p"))
    seen, _ = exchange(client, server)
    assert isinstance(seen[-1], Connected)


@pytest.mark.parametrize(
    ("wish", "offer", "agreed"),
    [(0, 60, 0), (30, 0, 30), (30, 60, 30), (60, 30, 30)],
)
def test_client_takes_the_shorter_heartbeat_or_none(wish: int, offer: int, agreed: int) -> None:
    client = AMQPEngine("client", now=0.0, settings=Settings(login=plain("u", "p"), heartbeat=wish))
    exchange(client, AMQPEngine("server", now=0.0, settings=Settings(heartbeat=offer)))
    assert client.heartbeat == agreed


def test_no_limit_from_the_server_leaves_the_client_s_own() -> None:
    client = AMQPEngine("client", now=0.0, settings=Settings(login=plain("u", "p")))
    start = ConnectionStart(0, 9, {}, b"PLAIN", b"en_US")
    client.receive_data(method(0, start) + method(0, ConnectionTune(0, 0, 0)))
    assert (0, ConnectionTuneOk(2047, 131072, 60)) in sent_methods(client)


def test_client_refuses_frames_that_are_too_small() -> None:
    client = AMQPEngine("client", now=0.0, settings=Settings(login=plain("u", "p")))
    start = ConnectionStart(0, 9, {}, b"PLAIN", b"en_US")
    client.receive_data(method(0, start) + method(0, ConnectionTune(0, 1024, 0)))
    assert last(client, Failed).code == 501


def test_commands_out_of_turn_are_our_own_mistake() -> None:
    server = AMQPEngine("server", now=0.0)
    for command in (server.accept_login, server.open_connection, lambda: server.challenge(b"")):
        with pytest.raises(LocalProtocolError, match="in state waiting"):
            command()
    with pytest.raises(LocalProtocolError, match="no login to refuse"):
        server.refuse_login("no")


def test_commands_of_the_other_role_are_our_own_mistake() -> None:
    server, client = AMQPEngine("server", now=0.0), AMQPEngine("client", now=0.0)
    with pytest.raises(LocalProtocolError, match="server's command"):
        client.accept_login()
    with pytest.raises(LocalProtocolError, match="client's command"):
        server.log_in(plain("u", "p"))
    with pytest.raises(LocalProtocolError, match="client's command"):
        server.answer_challenge(b"")


def test_commands_that_come_too_late_are_dropped() -> None:
    server = greeted()
    server.receive_data(b"")
    server.accept_login()
    server.refuse_login("no")
    server.open_connection()
    server.close(200, "bye")
    assert sent(server) == b""


def test_before_the_header_there_is_nothing_to_close() -> None:
    server = AMQPEngine("server", now=0.0)
    server.close(320, "shutting down")
    assert server.outbox.finished
    assert sent(server) == b""


def test_secure_ok_without_a_challenge_is_refused() -> None:
    server = tuning()
    server.receive_data(method(0, ConnectionSecureOk(b"x")))
    assert last(server, Failed).text == "CHANNEL_ERROR - unexpected method in connection state tuning"


def test_channels_may_be_opened_ahead_of_open_ok() -> None:
    server = tuning()
    server.receive_data(
        method(0, ConnectionTuneOk(2047, 131072, 0)) + method(0, ConnectionOpen("/")) + method(1, ChannelOpen())
    )
    assert [type(event).__name__ for event in admit(server)] == ["ChannelOpened"]
