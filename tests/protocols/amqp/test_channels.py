"""Channels: opening, closing from both sides at once, what is dropped, and how many there may be."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp import (
    AccessRequest,
    AccessRequestOk,
    AckRun,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ChannelClosed,
    ChannelCloseOk,
    ChannelFailed,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpened,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionOpenOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Failed,
    GetOk,
    Method,
    PublishRun,
    QueueDeclare,
    QueueDeclareOk,
    Received,
    Returned,
    Settings,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
    plain,
)

from .wire import body, content, exchange, header, last, method, pair, running, sent, sent_methods


def test_channel_opens() -> None:
    server = running(channels=())
    server.receive_data(method(5, ChannelOpen()))
    assert server.events() == [ChannelOpened(5, 1)]
    assert sent(server) == b""
    server.send_method(5, ChannelOpenOk())
    assert sent_methods(server) == [(5, ChannelOpenOk())]


def test_methods_may_follow_open_before_it_is_answered() -> None:
    server = running(channels=())
    server.receive_data(
        method(5, ChannelOpen()) + method(5, QueueDeclare("q")) + content(5, BasicPublish("", "q"), b"x")
    )
    assert [type(event) for event in server.events()] == [ChannelOpened, Received, PublishRun]


def test_number_used_again_is_another_incarnation() -> None:
    server = running(channels=())
    for incarnation in range(1, 5):
        server.receive_data(method(1, ChannelOpen()))
        assert server.events() == [ChannelOpened(1, incarnation)]
        server.send_method(1, ChannelOpenOk())
        server.receive_data(method(1, ChannelClose(200, "")))
        assert server.events() == [ChannelClosed(1, 200, "", by_peer=True)]
        server.send_method(1, ChannelCloseOk())


def test_the_peer_closes_a_channel_and_is_answered_by_the_endpoint() -> None:
    server = running()
    server.receive_data(method(1, QueueDeclare("q")) + method(1, ChannelClose(200, "bye", 0, 0)))
    assert server.events() == [Received(1, QueueDeclare("q")), ChannelClosed(1, 200, "bye", by_peer=True)]
    server.send_method(1, BasicGetEmpty())  # what was asked before is still answered
    server.send_method(1, ChannelCloseOk())
    assert sent_methods(server) == [(1, BasicGetEmpty()), (1, ChannelCloseOk())]
    with pytest.raises(LocalProtocolError, match="channel 1 is not open"):
        server.send_method(1, BasicGetEmpty())


def test_open_and_a_close_that_come_at_once_are_both_answered() -> None:
    server = running(channels=())
    server.receive_data(method(1, ChannelOpen()) + method(1, ChannelClose(200, "changed my mind")))
    assert [type(event) for event in server.events()] == [ChannelOpened, ChannelClosed]
    server.send_method(1, ChannelOpenOk())
    server.send_method(1, ChannelCloseOk())
    assert sent_methods(server) == [(1, ChannelOpenOk()), (1, ChannelCloseOk())]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "answered in between"])
def test_channel_may_be_opened_again_before_its_close_is_answered(*, at_once: bool) -> None:
    server = running(channels=())
    words = [
        ChannelOpen(),
        ChannelClose(200, "one"),
        ChannelOpen(),
        ChannelClose(200, "two"),
        ChannelOpen(),
        BasicQos(),
    ]
    octets = [method(1, word) for word in words]
    methods = []
    for piece in [b"".join(octets)] if at_once else octets:
        server.receive_data(piece)
        for event in server.events():
            if isinstance(event, ChannelOpened):
                server.send_method(1, ChannelOpenOk())
            elif isinstance(event, ChannelClosed):
                server.send_method(1, ChannelCloseOk())
            else:
                server.send_method(1, BasicQosOk())
        methods += sent_methods(server)
    answers = [ChannelOpenOk(), ChannelCloseOk(), ChannelOpenOk(), ChannelCloseOk(), ChannelOpenOk(), BasicQosOk()]
    assert methods == [(1, answer) for answer in answers]


def test_methods_may_not_follow_the_peer_s_close() -> None:
    server = running()
    server.receive_data(method(1, ChannelClose(200, "")) + method(1, BasicQos()))
    assert last(server, Failed) == Failed(504, "CHANNEL_ERROR - expected 'channel.open'", 60, 10)


def test_after_our_close_everything_is_dropped_until_close_ok() -> None:
    server = running(channels=(1, 2))
    server.close_channel(1, 404, "no exchange 'e' in vhost '/'", 60, 40)
    text = "NOT_FOUND - no exchange 'e' in vhost '/'"
    assert sent_methods(server) == [(1, ChannelClose(404, text, 60, 40))]
    server.receive_data(
        content(1, BasicPublish("e"), b"xyz") * 100
        + body(1, b"even this")
        + method(1, QueueDeclare("q"))
        + method(2, QueueDeclare("other"))
    )
    assert server.events() == [Received(2, QueueDeclare("other"))]
    server.receive_data(method(1, ChannelCloseOk()))
    assert server.events() == [ChannelClosed(1, 404, text, by_peer=False)]
    server.receive_data(method(1, ChannelOpen()))
    assert last(server, ChannelOpened).channel == 1


def test_closes_of_a_channel_that_cross_are_both_answered() -> None:
    server = running()
    server.close_channel(1, 406, "no")
    server.receive_data(method(1, ChannelClose(200, "bye")))
    assert sent_methods(server) == [(1, ChannelClose(406, "PRECONDITION_FAILED - no")), (1, ChannelCloseOk())]
    assert server.events() == []
    server.receive_data(method(1, ChannelCloseOk()))
    assert server.events() == [ChannelClosed(1, 406, "PRECONDITION_FAILED - no", by_peer=False)]


def test_close_without_a_reason_takes_the_reason_of_the_one_that_crosses_it() -> None:
    client, server = pair()
    client.close_channel(1, 200, "Goodbye")
    server.close_channel(1, 404, "nothing there")
    to_server, to_client = sent(client), sent(server)
    server.receive_data(to_server)
    client.receive_data(to_client)
    client.receive_data(sent(server))
    assert client.events() == [ChannelClosed(1, 404, "NOT_FOUND - nothing there", by_peer=False)]


REFUSED = (1, ChannelClose(404, "NOT_FOUND - late"))


def test_refusal_of_what_came_before_the_client_s_close_goes_before_its_answer() -> None:
    server = running()
    server.receive_data(method(1, ChannelClose(200, "")))
    server.close_channel(1, 404, "late")
    server.send_method(1, ChannelCloseOk())
    assert sent_methods(server) == [REFUSED, (1, ChannelCloseOk())]
    server.events()
    server.receive_data(method(1, QueueDeclare("dropped")) + method(1, ChannelClose(200, "again")))
    assert server.events() == []
    assert sent_methods(server) == [(1, ChannelCloseOk())]
    server.receive_data(method(1, ChannelCloseOk()))
    assert server.events() == [ChannelClosed(1, 404, "NOT_FOUND - late", by_peer=False)]
    server.receive_data(method(1, ChannelOpen()))
    assert last(server, ChannelOpened).channel == 1


def test_client_has_nothing_to_say_after_the_server_s_close_but_its_answer() -> None:
    client, server = pair()
    server.close_channel(1, 404, "late")
    client.receive_data(sent(server))
    client.close_channel(1, 200, "too late")
    client.send_method(1, ChannelCloseOk())
    assert sent_methods(client) == [(1, ChannelCloseOk())]


@pytest.mark.parametrize("cut", range(1, 5))
def test_refused_channel_may_be_opened_again_whenever_its_close_is_answered(cut: int) -> None:
    """The server is given ``cut`` words at first; the client answers the refusal last of all."""
    server = running()
    words = [QueueDeclare("refused"), ChannelClose(200, ""), ChannelOpen(), QueueDeclare("good"), ChannelCloseOk()]
    octets, methods = [method(1, word) for word in words], []
    for piece in (b"".join(octets[:cut]), b"".join(octets[cut:])):
        server.receive_data(piece)
        for event in server.events():
            if event == Received(1, QueueDeclare("refused")):
                server.close_channel(1, 404, "late")
            elif isinstance(event, ChannelClosed):
                server.send_method(1, ChannelCloseOk())
            elif isinstance(event, ChannelOpened):
                server.send_method(1, ChannelOpenOk())
            else:
                assert event == Received(1, QueueDeclare("good"))
                server.send_method(1, QueueDeclareOk("good"))
        methods += sent_methods(server)
    answers = [ChannelCloseOk(), ChannelOpenOk(), QueueDeclareOk("good")]
    assert methods == [REFUSED, *((1, answer) for answer in answers)]
    server.receive_data(method(1, ChannelClose(200, "")))
    assert last(server, ChannelClosed).by_peer
    server.send_method(1, ChannelCloseOk())
    with pytest.raises(LocalProtocolError, match="not open"):
        server.send_method(1, QueueDeclareOk("gone"))


def test_commands_on_a_closing_channel_are_dropped() -> None:
    server = running()
    server.receive_data(content(1, BasicPublish(), b"x"))
    (run,) = server.events()
    assert isinstance(run, PublishRun)
    server.close_channel(1, 404, "gone")
    server.data_to_send()
    server.send_method(1, BasicAck(1))
    server.send_content(1, BasicGetOk(1, False, "", ""), b"\0\0", b"x")
    server.send_deliveries(1, "c", 1, False, "", "q", run.framing, run.contents)
    server.close_channel(1, 404, "again")
    assert sent(server) == b""


def test_content_cut_off_by_the_peer_s_close_is_forgotten() -> None:
    client, server = pair()
    server.receive_data(method(1, BasicPublish()) + header(1, 10) + body(1, b"12345"))
    server.close_channel(1, 404, "gone")
    client.receive_data(sent(server))
    client.send_method(1, ChannelCloseOk())
    _, seen = exchange(client, server)
    assert [type(event) for event in seen] == [ChannelClosed]
    client.send_method(1, ChannelOpen())
    exchange(client, server)
    client.send_content(1, BasicPublish(), b"\0\0", b"whole")
    _, (run,) = exchange(client, server)
    assert isinstance(run, PublishRun)
    assert run.framing.body(run.contents[0]) == b"whole"


def test_body_above_the_limit_closes_its_channel_before_any_of_it_is_stored() -> None:
    server = running(Settings(max_message_size=100), channels=(1, 2))
    server.receive_data(method(1, BasicPublish()) + header(1, 101))
    text = "CONTENT_TOO_LARGE - message size 101 is larger than configured max size 100"
    assert server.events() == [ChannelFailed(1, 311, text, 60, 40)]
    assert sent_methods(server) == [(1, ChannelClose(311, text, 60, 40))]
    server.receive_data(body(1, bytes(101)) + content(2, BasicPublish(), bytes(100)))
    (run,) = server.events()
    assert isinstance(run, PublishRun)
    assert run.channel == 2
    server.receive_data(method(1, ChannelCloseOk()))
    assert server.events() == [ChannelClosed(1, 311, text, by_peer=False)]


def test_commands_on_a_channel_that_failed_and_is_gone_are_dropped() -> None:
    server = running(Settings(max_message_size=10))
    # The peer answers a close that it cannot have seen; what came before is answered by an endpoint that cannot know.
    server.receive_data(
        method(1, QueueDeclare("q")) + method(1, BasicPublish("", "q")) + header(1, 11) + method(1, ChannelCloseOk())
    )
    assert [type(event) for event in server.events()] == [Received, ChannelFailed, ChannelClosed]
    sent(server)
    server.send_method(1, QueueDeclareOk("q"))
    server.send_content(1, BasicGetOk(1, False, "", ""), b"\0\0", b"")
    server.close_channel(1, 404, "no")
    assert sent(server) == b""
    server.receive_data(method(1, ChannelOpen()))
    server.send_method(1, ChannelOpenOk())
    server.send_method(1, QueueDeclareOk("q"))
    assert len(sent_methods(server)) == 2


def test_channel_that_fails_and_is_opened_again_at_once_may_be_answered_twice() -> None:
    server = running(Settings(max_message_size=10), channels=())
    lying = method(1, BasicPublish("", "q")) + header(1, 11) + method(1, ChannelCloseOk())
    server.receive_data(method(1, ChannelOpen()) + lying + method(1, ChannelOpen()))
    opened = [event for event in server.events() if isinstance(event, ChannelOpened)]
    assert [event.incarnation for event in opened] == [1, 2]
    sent(server)
    for _ in opened:
        server.send_method(1, ChannelOpenOk())
    assert sent_methods(server) == [(1, ChannelOpenOk())]


def test_unfinished_contents_are_bounded_over_all_channels() -> None:
    server = running(Settings(max_message_size=1024 * 1024), channels=range(1, 11))
    for number in range(1, 11):
        server.receive_data(method(number, BasicPublish()) + header(number, 1024 * 1024))
    for number in range(1, 11):
        server.receive_data(body(number, bytes(120_000)) * 8)
    failed = last(server, Failed)
    assert failed.code == 506
    assert failed.text == "RESOURCE_ERROR - more than 2097152 octets of unfinished contents"


def test_publish_that_is_not_whole_is_reported_once() -> None:
    server = running(channels=(1, 2, 3))
    whole = content(1, BasicPublish("", "q"), b"whole")
    begun = method(1, BasicPublish("e", "k")) + header(1, 5) + method(2, BasicPublish("f", "k"))
    server.receive_data(whole + begun + method(3, BasicPublish("g", "k")) + header(3, 0))
    assert server.take_begun() == [(1, BasicPublish("e", "k")), (2, BasicPublish("f", "k"))]
    assert server.take_begun() == []
    server.receive_data(body(1, b"12345") + method(1, BasicPublish("h", "k")) + header(1, 5))
    server.close_channel(1, 404, "gone")
    assert server.take_begun() == []


def test_unfinished_octets_are_those_of_contents_and_of_the_frame_that_is_not_whole() -> None:
    server = running()
    begun = method(1, BasicPublish("", "q")) + header(1, 1000) + body(1, bytes(400))
    server.receive_data(begun + body(1, bytes(500))[:300])
    assert server.unfinished_contents == 400 + len(header(1, 1000))
    assert server.unfinished == server.unfinished_contents + 300
    server.close(320, "bye")
    assert server.unfinished_contents == 0


def test_client_may_receive_several_large_bodies_side_by_side() -> None:
    client, _ = pair(
        client_settings=Settings(login=plain("guest", "guest"), heartbeat=0, max_message_size=1024 * 1024), channels=4
    )
    for number in range(1, 5):
        client.receive_data(method(number, BasicDeliver("c", 1, False, "", "q")) + header(number, 1024 * 1024))
        client.receive_data(body(number, bytes(120_000)) * 8)
    assert client.events() == []


def test_the_bound_is_given_back_when_contents_are_whole_or_dropped() -> None:
    server = running(Settings(max_message_size=1024 * 1024))
    for round_ in range(20):
        server.receive_data(content(1, BasicPublish(), bytes(1024 * 1024), step=100_000))
        assert len(server.events()) == 1, round_
    for round_ in range(20):
        server.receive_data(method(1, BasicPublish()) + header(1, 1024 * 1024) + body(1, bytes(120_000)) * 8)
        server.close_channel(1, 404, "gone")
        server.receive_data(method(1, ChannelCloseOk()) + method(1, ChannelOpen()))
        assert [type(event) for event in server.events()] == [ChannelClosed, ChannelOpened], round_


def test_channels_are_counted_not_numbered() -> None:
    server = running(Settings(channel_max=2047), channels=())
    assert server.channel_max == 2047
    client, server = pair(Settings(channel_max=3), channels=0)
    for number in (7, 65535, 300):
        client.send_method(number, ChannelOpen())
    assert [type(event) for event in exchange(client, server)[1]] == [ChannelOpened] * 3
    server.receive_data(method(1, ChannelOpen()))
    text = "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    assert last(server, Failed) == Failed(530, text, 0, 0)


def test_client_does_not_open_more_than_agreed() -> None:
    client, _ = pair(Settings(channel_max=2), channels=2)
    with pytest.raises(LocalProtocolError, match="2 channels are open"):
        client.send_method(3, ChannelOpen())
    with pytest.raises(LocalProtocolError, match="channel 1 cannot be opened"):
        client.send_method(1, ChannelOpen())


def test_many_channels_in_turn_leave_nothing_behind() -> None:
    server = running(channels=())
    opening, closing = method(1, ChannelOpen()), method(1, ChannelClose(200, ""))
    for _ in range(2000):
        server.receive_data(opening)
        server.send_method(1, ChannelOpenOk())
        server.receive_data(closing)
        server.send_method(1, ChannelCloseOk())
    assert len(server.events()) == 4000
    assert server._channels.open == {}


def test_acks_are_runs_and_everything_else_comes_as_it_is() -> None:
    server = running()
    server.receive_data(
        b"".join(method(1, BasicAck(tag)) for tag in (1, 2, 5))
        + method(1, BasicAck(9, multiple=True))
        + method(1, BasicAck(10))
        + method(1, BasicNack(11))
        + method(1, ChannelFlow(True))
    )
    assert server.events() == [
        AckRun(1, [1, 2, 5]),
        Received(1, BasicAck(9, multiple=True)),
        AckRun(1, [10]),
        Received(1, BasicNack(11)),
        Received(1, ChannelFlow(True)),
    ]


def test_methods_of_the_connection_come_as_channel_0() -> None:
    client, server = pair()
    client.send_method(0, ConnectionUpdateSecret(b"new", "expired"))
    assert exchange(client, server)[1] == [Received(0, ConnectionUpdateSecret(b"new", "expired"))]
    server.send_method(0, ConnectionUpdateSecretOk())
    server.send_method(0, ConnectionBlocked("memory"))
    assert exchange(client, server)[0] == [
        Received(0, ConnectionUpdateSecretOk()),
        Received(0, ConnectionBlocked("memory")),
    ]


@pytest.mark.parametrize("active", [True, False])
def test_flow_is_asked_for_and_answered_in_both_directions(*, active: bool) -> None:
    client, server = pair()
    for asking, answering, place in ((client, server, 1), (server, client, 0)):
        asking.send_method(1, ChannelFlow(active))
        assert exchange(client, server)[place] == [Received(1, ChannelFlow(active))]
        answering.send_method(1, ChannelFlowOk(active))
        assert exchange(client, server)[1 - place] == [Received(1, ChannelFlowOk(active))]


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        (TxSelect(), TxSelectOk()),
        (TxCommit(), TxCommitOk()),
        (TxRollback(), TxRollbackOk()),
        (BasicRecover(requeue=True), BasicRecoverOk()),
        (BasicRecover(requeue=False), BasicRecoverOk()),
        (BasicRecoverAsync(requeue=True), BasicRecoverOk()),
        (BasicQos(10, 20, True), BasicQosOk()),
        (AccessRequest(), AccessRequestOk()),
    ],
)
def test_requests_and_replies_of_a_channel_pass_and_not_the_wrong_way(asked: Method, reply: Method) -> None:
    client, server = pair()
    client.send_method(1, asked)
    assert exchange(client, server)[1] == [Received(1, asked)]
    server.send_method(1, reply)
    assert exchange(client, server)[0] == [Received(1, reply)]
    with pytest.raises(LocalProtocolError, match="is not sent by a server"):
        server.send_method(1, asked)
    with pytest.raises(LocalProtocolError, match="is not sent by a client"):
        client.send_method(1, reply)
    server.receive_data(method(1, reply))
    assert last(server, Failed).code == 503


def test_client_gets_returns_and_answers_with_their_contents() -> None:
    client, server = pair()
    server.send_content(1, BasicReturn(312, "NO_ROUTE", "e", "k"), b"\x10\x00\x02", b"back")
    server.send_content(1, BasicGetOk(1, True, "e", "k", 7), b"\0\0", b"")
    server.send_content(1, BasicDeliver("c", 2, False, "e", "k"), b"\0\0", b"d")
    returned, got, run = exchange(client, server)[0]
    assert isinstance(returned, Returned)
    assert returned.method == BasicReturn(312, "NO_ROUTE", "e", "k")
    assert returned.framing.body(returned.content) == b"back"
    assert returned.framing.properties(returned.content) == b"\x10\x00\x02"
    assert isinstance(got, GetOk)
    assert got.method.message_count == 7
    assert got.framing.body(got.content) == b""
    assert type(run).__name__ == "DeliverRun"


@pytest.mark.parametrize(
    ("channel", "what", "complaint"),
    [
        (1, QueueDeclare("q"), "queue.declare is not sent by a server"),
        (1, BasicDeliver("c", 1, False, "", ""), "sent with send_content"),
        (1, ChannelClose(200, ""), "close_channel"),
        (0, ConnectionOpenOk(), "a command of its own"),
        (9, BasicCancel("c"), "channel 9 is not open"),
        (1, ChannelOpenOk(), "cannot be sent on channel 1, which is open"),
        (1, ChannelCloseOk(), "cannot be sent on channel 1, which is open"),
        (0, BasicGetEmpty(), "cannot be sent by a server in state running"),
        (1, Method(), "no row"),
    ],
)
def test_our_own_mistakes_are_told(channel: int, what: Method, complaint: str) -> None:
    with pytest.raises(LocalProtocolError, match=complaint):
        running().send_method(channel, what)


def test_method_without_content_is_not_sent_with_one() -> None:
    with pytest.raises(LocalProtocolError, match="is sent with send_method"):
        running().send_content(1, BasicGetEmpty(), b"\0\0", b"")  # type: ignore[arg-type]  # that is the test


def test_method_on_a_channel_that_is_only_known_to_the_server_is_the_server_s_failure() -> None:
    client, _ = pair()
    client.receive_data(method(4, BasicCancel("c")))
    assert last(client, Failed).code == 504
    client, _ = pair()
    client.receive_data(method(1, BasicConsume("q")))
    assert last(client, Failed).code == 503
