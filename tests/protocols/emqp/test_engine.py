"""Conversations: a broker with peers of each role, a peer with brokers that know extensions and that do not."""

import pytest

from protocols.emqp.wire import (
    ANNOUNCED,
    CALL,
    EXTENSION,
    HEARTBEAT,
    KBYE,
    RELEASED,
    REQUEST,
    SCHEDULER_INFORM,
    UUID,
    WORKER_INFORM,
    broker,
    frames,
    hear,
    opened,
    peer,
    sent,
    serving,
)
from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import (
    MOST_IDS,
    MOST_RUNNING,
    NO_EXTENSION,
    NO_HEADERS,
    Acknowledged,
    CancelAsked,
    DisconnectAsked,
    Dispatched,
    Extension,
    Frames,
    Informed,
    JobsReturned,
    JobState,
    MessageDropped,
    Opened,
    PeerLeaving,
    Progressed,
    RefusalReceived,
    Replied,
    Requested,
    Role,
    Settings,
    Silent,
    SlotsOffered,
    StateReported,
    StatesAsked,
    Subscribed,
    TopicPublished,
    Unknown,
    Unsubscribed,
    WeightedQueue,
    make_headers,
)
from triomq.protocols.emqp.engine import EMQPEngine
from triomq.protocols.emqp.extension import LONGEST
from triomq.protocols.emqp.reader import MOST_SLOTS

EMAIL = (WeightedQueue(40, "email"),)
X = b'{"v":1,"attempt":2,"key":"k"}'
STRICT = Settings(dialect="strict", capabilities=())


def exchange(one: EMQPEngine, other: EMQPEngine) -> list[object]:
    """Bring what each side sends to the other, until there is nothing; return what they report."""
    found: list[object] = []
    while messages := [(there, message) for here, there in ((one, other), (other, one)) for message in sent(here)]:
        found += [event for there, message in messages if (event := there.receive(message)) is not None]
    return found


# A broker and released peers


def test_released_worker_gets_its_ack_its_jobs_and_heartbeats() -> None:
    engine = broker()
    assert isinstance(engine.receive(WORKER_INFORM), Informed)
    engine.acknowledge(UUID)
    assert sent(engine) == [frames(b"ACK", UUID, msgid=b"b-1")]
    engine.receive(frames(b"READY"))
    engine.request(b"job", "email", make_headers(guarantee=True).replying(), CALL, EXTENSION)
    assert sent(engine) == [frames(b"REQUEST", b"email", b"reply-requested,guarantee", CALL, msgid=b"job")]
    assert engine.receive(frames(b"REPLY", b'{"value": 5}', b"job")) == Replied(b"job", b'{"value": 5}', NO_EXTENSION)


def test_released_client_is_answered_where_it_listens_and_never_refused() -> None:
    engine = broker()
    assert isinstance(engine.receive(REQUEST), Requested)
    engine.acknowledge(UUID, duplicate_of=b"other")
    assert engine.messages_to_send() == []
    assert engine.notices_to_send() == [frames(b"ACK", UUID, msgid=b"b-1")]  # which it never reads
    assert not engine.refuse(UUID, "full", "no room")
    engine.reply(UUID, b'{"value": 5}', EXTENSION)
    assert sent(engine) == [frames(b"REPLY", b'{"value": 5}', UUID, msgid=b"b-2")]
    assert engine.next_timer() is None  # nor is it looked for


def test_released_scheduler_gets_schedules_and_requests() -> None:
    engine = broker()
    engine.receive(SCHEDULER_INFORM)
    engine.acknowledge(UUID)
    assert isinstance(engine.receive(REQUEST), Requested)
    sent(engine)
    engine.schedule("q", NO_HEADERS, CALL, interval=5)
    engine.schedule("q", NO_HEADERS, CALL, cron="* * * * *")
    engine.schedule("q", NO_HEADERS, CALL, ends=True)
    assert [(len(message), message[2], message[6], message[8]) for message in sent(engine)] == [
        (9, b"SCHEDULE", b"5", b""),
        (9, b"SCHEDULE", b"-1", b"* * * * *"),
        (9, b"UNSCHEDULE", b"-1", b""),
    ]


def test_message_that_is_no_text_never_reaches_a_released_peer() -> None:
    engine = serving(is_extended=False)
    assert not engine.carries(b"\xff")
    with pytest.raises(LocalProtocolError, match="not UTF-8"):
        engine.request(b"job", "q", NO_HEADERS, b"\xff")
    with pytest.raises(LocalProtocolError, match="not UTF-8"):
        engine.reply(b"job", b"\xff")
    assert sent(engine) == []
    engine = serving()
    assert engine.carries(b"\xff")
    engine.request(b"job", "q", NO_HEADERS, b"\xff")
    assert sent(engine)[0][6] == b"\xff"


def test_strict_broker_replies_in_five_frames() -> None:
    engine = broker(STRICT)
    engine.reply(b"job", b"1")
    assert sent(engine) == [frames(b"REPLY", b"1", msgid=b"job")]


# A broker and peers with extensions


def test_extensions_are_for_peers_that_have_announced_them() -> None:
    engine = serving("client")
    engine.acknowledge(b"id", duplicate_of=b"other")
    assert engine.refuse(b"id", "full", "no room")
    engine.reply(b"id", b"1", EXTENSION)
    engine.publish("t", b"1", make_headers(guarantee=True))
    assert engine.notices_to_send() == []
    assert [message[2:3] + message[4:] for message in sent(engine)] == [
        (b"ACK", b"id", b'{"v":1,"duplicate_of":"other"}'),
        (b"ERROR", b"id", b"full", b"no room"),
        (b"REPLY", b"1", b"id", X),
        (b"PUBLISH", b"t", b"guarantee", b"1"),
    ]


def test_extensions_that_are_switched_off_are_not_spoken() -> None:
    engine = serving("client", settings=RELEASED)
    assert not engine.is_extended
    engine.acknowledge(b"inform")
    engine.publish("t", b"1")
    assert [len(message) for message in sent(engine)] == [5, 6]


def test_peer_that_informs_again_is_what_it_says_now() -> None:
    engine = serving("worker")
    engine.receive(frames(b"INFORM", b"", b"client"))
    assert engine.state == "client"
    assert not engine.is_extended
    assert isinstance(engine.receive(frames(b"READY")), MessageDropped)


def test_peer_may_say_any_nonsense_and_is_heard_again() -> None:
    engine = serving()
    assert isinstance(engine.receive((b"\xff",)), MessageDropped)
    assert engine.receive(frames(b"READY")) == SlotsOffered(1)


def test_same_message_may_be_received_again() -> None:
    engine = broker()
    assert engine.receive(REQUEST) == engine.receive(REQUEST)
    assert engine.receive(WORKER_INFORM) == engine.receive(WORKER_INFORM)
    assert sent(engine) == []


# Time


def test_broker_sends_heartbeats_to_those_that_have_informed_and_drops_the_silent() -> None:
    engine = serving()
    assert engine.handle_timer(0.0) is None
    assert engine.handle_timer(1.5) is None
    assert engine.handle_timer(3.0) is None
    assert engine.messages_to_send() == []
    ((_, _, command, _, unix_time),) = engine.notices_to_send()
    assert (command, unix_time) == (b"HEARTBEAT", b"1000000003.000000")
    engine.receive(HEARTBEAT)
    events = [engine.handle_timer(3.0 + 1.5 * step) for step in range(1, 12)]
    assert events == [None] * 10 + [Silent()]  # at 19.5, fifteen seconds after the tick that knew of the last one
    assert engine.state == "closed"
    assert engine.outbox.finished
    assert engine.next_timer() is None


def test_any_message_is_as_good_as_a_heartbeat() -> None:
    engine = serving()
    for step in range(20):
        engine.receive(frames(b"nonsense"))
        assert engine.handle_timer(step * 10.0) is None
    assert engine.state == "worker"


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_inform_is_repeated_under_one_id_until_it_is_acknowledged(role: Role) -> None:
    engine = peer(role)
    ((*_, msgid, _, named, _),) = sent(engine)
    assert named == role.encode()
    assert [engine.handle_timer(now) for now in (0.0, 0.9, 1.0, 2.0)] == [None] * 4
    assert [message[3] for message in sent(engine)] == [msgid, msgid]
    assert engine.receive(frames(b"ACK", msgid, ANNOUNCED)) == Opened(("jobs",))
    assert engine.receive(frames(b"ACK", msgid, ANNOUNCED)) is None
    engine.handle_timer(3.0)
    assert [message[2] for message in sent(engine)] == []


def test_broker_that_never_answers_is_silent() -> None:
    engine = peer("worker")
    for now in range(16):
        assert engine.handle_timer(float(now)) is None
    assert engine.handle_timer(15.5) == Silent()
    assert engine.state == "closed"


def test_client_goes_on_without_extensions_when_inform_is_not_answered() -> None:
    engine = peer("client")
    sent(engine)
    with pytest.raises(LocalProtocolError, match="informing"):
        engine.request("q", CALL)
    assert [engine.handle_timer(now) for now in (0.0, 1.0)] == [None, Opened(())]
    engine.request("q", CALL, extension=EXTENSION)
    assert [len(message) for message in sent(engine)] == [7]
    assert engine.next_timer() is None  # such a broker sends no heartbeats to clients


def test_inform_is_not_repeated_to_a_broker_that_has_said_goodbye() -> None:
    engine = peer("client")
    sent(engine)
    engine.handle_timer(0.0)
    assert engine.receive(frames(b"KBAI")) == PeerLeaving()
    assert [engine.handle_timer(now) for now in (1.0, 2.0)] == [None, None]
    assert engine.state == "left"


def test_client_without_capabilities_is_open_at_once() -> None:
    engine = peer("client", RELEASED)
    assert engine.state == "open"
    assert sent(engine) == []


def test_peer_sends_heartbeats_and_notices_that_its_broker_is_silent() -> None:
    engine = opened("client")
    events = [engine.handle_timer(1.5 * step) for step in range(11)]
    assert events == [None] * 10 + [Silent()]
    ours = [message for message in engine.notices_to_send() if message[2] == b"HEARTBEAT"]
    assert [message[5:] for message in ours] == [(ANNOUNCED,)] * 4


def test_heartbeat_to_a_released_router_has_five_frames() -> None:
    engine = opened(is_extended=False)
    engine.handle_timer(0.0)
    engine.handle_timer(3.0)
    assert [len(message) for message in sent(engine)] == [5]


# A broker that does not know its peer


def test_peer_that_is_not_known_is_told_so_and_informs_again() -> None:
    worker, restarted = opened(queues=EMAIL), broker()
    worker.handle_timer(0.0)
    worker.handle_timer(3.0)
    (heartbeat,) = sent(worker)
    assert restarted.receive(heartbeat) is None
    (error,) = sent(restarted)
    assert error[2:] == (b"ERROR", error[3], heartbeat[3], b"inform", error[6])
    assert worker.receive(error) == Unknown()
    assert worker.state == "informing"
    worker.reply(b"job", b"1")  # what it has done meanwhile
    (inform, reply) = sent(worker)
    assert inform[4:6] == (b'[[40, "email"]]', b"worker")
    assert isinstance(restarted.receive(inform), Informed)
    assert restarted.receive(reply) == Replied(b"job", b"1", NO_EXTENSION)
    restarted.acknowledge(inform[3])
    assert exchange(restarted, worker) == [Opened(("jobs",))]


def test_released_peer_that_is_not_known_is_passed_over() -> None:
    engine = broker()
    assert hear(engine, [HEARTBEAT, frames(b"READY"), KBYE, (*HEARTBEAT, b"\xff")]) == []
    assert [message[2] for message in sent(engine)] == [b"ERROR"]  # to a frame that released ones never send
    assert engine.receive(frames(b"REPLY", b"1", b"late")) is None
    assert sent(engine) == []
    assert engine.receive(frames(b"REPLY", b"1", b"late", X)) is None
    ((*_, code, _),) = sent(engine)  # which one with extensions is to know
    assert code == b"inform"


# Both sides of a whole conversation


def test_job_goes_from_client_to_worker_and_its_answer_back() -> None:
    waiting: set[bytes] = set()
    client, worker = opened("client", outstanding=waiting), opened("worker", queues=EMAIL)
    to_client, to_worker = serving("client"), serving("worker")
    worker.ready(2)
    assert exchange(worker, to_worker) == [SlotsOffered(2)]
    msgid = client.request("email", CALL, make_headers(reply_requested=True), EXTENSION)
    waiting.add(msgid)
    (asked,) = exchange(client, to_client)
    assert isinstance(asked, Requested)
    to_client.acknowledge(msgid)
    assert exchange(client, to_client) == [Acknowledged(msgid, NO_EXTENSION)]
    to_worker.request(asked.msgid, asked.queue, asked.headers, asked.message, asked.extension)
    assert exchange(worker, to_worker) == [asked]
    worker.reply(asked.msgid, b'{"value": 5}', EXTENSION)
    (answer,) = exchange(worker, to_worker)
    assert answer == Replied(msgid, b'{"value": 5}', EXTENSION)
    to_client.reply(msgid, b'{"value": 5}', EXTENSION)
    assert exchange(client, to_client) == [answer]


def test_client_with_extensions_subscribes_and_gets_what_is_published() -> None:
    client, ours = opened("client"), serving("client")
    subscribe, unsubscribe = client.subscribe("news"), client.unsubscribe("old")
    assert exchange(client, ours) == [Subscribed(subscribe, "news"), Unsubscribed(unsubscribe, "old")]
    ours.publish("news", b"\xff", make_headers(guarantee=True), EXTENSION)
    (event,) = exchange(client, ours)
    assert isinstance(event, TopicPublished)
    assert (event.topic, event.message, event.headers.guarantee, event.extension) == ("news", b"\xff", True, EXTENSION)
    released = opened("client", is_extended=False)
    with pytest.raises(LocalProtocolError, match="SUB socket"):
        released.subscribe("news")


def test_answers_are_told_from_a_released_routers_notice() -> None:
    waiting = {b"mine", b"strict"}
    client = opened("client", is_extended=False, outstanding=waiting)
    assert client.receive(frames(b"REPLY", b"mine", msgid=b"new")) == Dispatched(b"mine")
    assert client.receive(frames(b"REPLY", b"1", msgid=b"strict")) == Replied(b"strict", b"1", NO_EXTENSION)
    assert client.receive(frames(b"REPLY", b"1", b"mine", msgid=b"new")) == Replied(b"mine", b"1", NO_EXTENSION)
    # A strict answer that happens to be another request's id is an answer.
    assert client.receive(frames(b"REPLY", b"mine", msgid=b"strict")) == Replied(b"strict", b"mine", NO_EXTENSION)


def test_ready_counts_where_the_broker_does() -> None:
    assert_ready = {
        True: [frames(b"READY", b"3", msgid=b"p-2")],
        False: [frames(b"READY", msgid=b"p-%d" % n) for n in (2, 3, 4)],
    }
    for is_extended, messages in assert_ready.items():
        worker = opened(is_extended=is_extended)
        worker.ready(3)
        assert sent(worker) == messages
    with pytest.raises(LocalProtocolError, match="it takes 1 to"):
        worker.ready(0)
    with pytest.raises(LocalProtocolError, match="it takes 1 to"):
        worker.ready(MOST_SLOTS + 1)


def test_refusal_reaches_who_asked() -> None:
    client, ours = opened("client"), serving("client")
    msgid = client.publish("t", b"1")
    exchange(client, ours)
    ours.refuse(msgid, "forbidden", "you may not write \ud800")
    assert exchange(client, ours) == [RefusalReceived(msgid, "forbidden", "you may not write ?")]


# Jobs


def test_progress_and_items_go_from_worker_to_client_and_what_was_read_back() -> None:
    client, worker = opened("client"), opened("worker")
    to_client, to_worker = serving("client"), serving("worker")
    item = Extension(attempt=1, number=3, item=True)
    assert worker.progress(b"job", b"\xff", item)
    (event,) = exchange(worker, to_worker)
    assert event == Progressed(b"job", b"\xff", item)
    assert to_client.progress(b"job", b"\xff", item)
    assert exchange(client, to_client) == [event]
    read = Extension(number=3)
    assert client.progress(b"job", b"", read)
    assert exchange(client, to_client) == [Progressed(b"job", b"", read)]
    assert to_worker.progress(b"job", b"", read)
    assert exchange(worker, to_worker) == [Progressed(b"job", b"", read)]


def test_job_is_cancelled_from_client_to_worker() -> None:
    client, worker = opened("client"), opened("worker")
    to_client, to_worker = serving("client"), serving("worker")
    how = Extension(grace=500, tree=True)
    msgid = client.cancel(b"job", how)
    assert exchange(client, to_client) == [CancelAsked(msgid, b"job", how)]
    to_client.acknowledge(msgid)
    assert exchange(client, to_client) == [Acknowledged(msgid, NO_EXTENSION)]
    worker.leave()  # what it still does may be cancelled
    exchange(worker, to_worker)
    assert to_worker.cancel(b"job", how)
    ((cancelled),) = exchange(worker, to_worker)
    assert isinstance(cancelled, CancelAsked)
    assert (cancelled.request, cancelled.extension) == (b"job", how)


def test_jobs_that_were_not_begun_are_returned_in_lists() -> None:
    worker, ours = opened("worker"), serving("worker")
    worker.leave()
    exchange(worker, ours)
    ids = [b"job-%d" % number for number in range(MOST_IDS + 2)]
    worker.give_back(ids)
    assert exchange(worker, ours) == [JobsReturned(tuple(ids[:MOST_IDS])), JobsReturned(tuple(ids[MOST_IDS:]))]
    worker.give_back([])
    assert sent(worker) == []
    with pytest.raises(LocalProtocolError, match="of UTF-8"):
        worker.give_back([b"\xff"])


def test_states_of_jobs_are_asked_for_and_reported() -> None:
    client, ours = opened("client"), serving("client")
    msgid = client.ask_states([b"a", b"b"], Extension(follow=True, result=True))
    assert exchange(client, ours) == [StatesAsked(msgid, (b"a", b"b"), Extension(follow=True, result=True))]
    failed = JobState(state="failed", queue="q", attempt=3, since=5, type="E", message="m", traceback="t")
    ours.report_state(b"a", failed)
    ours.report_state(b"b", JobState(state="ok"), b'{"value": 5}')
    ours.acknowledge(msgid)
    assert exchange(client, ours) == [
        StateReported(b"a", failed, None),
        StateReported(b"b", JobState(state="ok"), b'{"value": 5}'),
        Acknowledged(msgid, NO_EXTENSION),
    ]
    for ids in ([], [b"x"] * (MOST_IDS + 1)):
        with pytest.raises(LocalProtocolError, match="it takes 1 to"):
            client.ask_states(ids)


def test_commands_of_jobs_are_for_peers_with_extensions() -> None:
    client, worker = opened("client", is_extended=False), opened("worker", is_extended=False)
    assert not worker.progress(b"job", b"1", EXTENSION)
    with pytest.raises(LocalProtocolError, match="knows no RETURN"):
        worker.give_back([b"job"])
    with pytest.raises(LocalProtocolError, match="knows no CANCEL"):
        client.cancel(b"job")
    with pytest.raises(LocalProtocolError, match="knows no STATE"):
        client.ask_states([b"job"])
    assert sent(client) == sent(worker) == []
    for ours in (broker(), serving("client", is_extended=False), serving("scheduler")):
        assert not ours.progress(b"job", b"1", EXTENSION)
        assert not ours.report_state(b"job", JobState(state="ok"))
        assert not ours.cancel(b"job")
        assert sent(ours) == []


def test_peer_says_nothing_that_is_too_long_to_be_read() -> None:
    worker = opened("worker", settings=Settings(max_message_size=100))
    assert not worker.carries(b"x" * 101)
    with pytest.raises(LocalProtocolError, match="101 bytes; at most 100"):
        worker.reply(b"job", b"x" * 101)
    with pytest.raises(LocalProtocolError, match="extension frame of"):
        worker.reply(b"job", b"1", Extension(state="failed", traceback="x" * LONGEST))
    assert sent(worker) == []


def test_request_is_sent_again_under_its_id() -> None:
    client, ours = opened("client"), serving("client")
    msgid = client.request("q", CALL)
    assert client.request("q", CALL, msgid=msgid) == msgid
    first, second = exchange(client, ours)
    assert first == second


def test_emq_cli_gets_its_answer_in_frame_4() -> None:
    admin, ours = opened("client", is_extended=False), broker()
    msgid = admin.ask("STATUS")
    exchange(admin, ours)
    ours.reply(msgid, b'{"waiting": {}}')
    ((*_, body, asked),) = sent(ours)
    assert (body, asked) == (b'{"waiting": {}}', msgid)


# Goodbyes


def test_leaving_worker_still_replies_and_hears_no_more() -> None:
    worker, ours = opened("worker"), serving("worker")
    worker.leave()
    worker.leave()
    assert exchange(worker, ours) == [PeerLeaving()]
    worker.reply(b"job", b"1")
    assert exchange(worker, ours) == [Replied(b"job", b"1", NO_EXTENSION)]
    ours.acknowledge(b"x")
    ours.leave()
    ours.handle_timer(0.0)
    ours.handle_timer(200.0)
    assert sent(ours) == []
    with pytest.raises(LocalProtocolError, match="too late: the conversation is left"):
        ours.request(b"job", "q", NO_HEADERS, CALL)
    assert ours.handle_timer(400.0) == Silent()


@pytest.mark.parametrize("is_extended", [True, False])
def test_leaving_worker_shows_that_it_is_alive(is_extended: bool) -> None:
    worker = opened("worker", is_extended=is_extended)
    worker.leave()
    sent(worker)
    worker.handle_timer(0.0)
    worker.handle_timer(5.0)
    assert [message[2] for message in sent(worker)] == [b"HEARTBEAT"] * is_extended  # released ones have forgotten it


def test_released_peers_goodbye_is_one_whether_it_is_kbye_or_both() -> None:
    engine = serving(is_extended=False)
    assert hear(engine, [KBYE, frames(b"KBAI"), KBYE]) == [PeerLeaving()]
    assert engine.receive(WORKER_INFORM) is not None  # it comes back, as released ones do
    assert engine.state == "worker"


def test_leaving_broker_refuses_what_is_new_and_takes_replies() -> None:
    ours, worker, client = serving("worker"), opened("worker"), serving("client")
    ours.leave()
    assert exchange(ours, worker) == [PeerLeaving()]
    worker.reply(b"job", b"1")
    assert exchange(ours, worker) == [Replied(b"job", b"1", NO_EXTENSION)]
    client.leave()
    sent(client)
    assert isinstance(client.receive(REQUEST), MessageDropped)
    ((_, _, command, _, refused, code, _),) = sent(client)
    assert (command, refused, code) == (b"ERROR", UUID, b"leaving")
    client.reply(b"asked before", b"1")
    assert len(sent(client)) == 1


@pytest.mark.parametrize(
    ("is_extended", "settings", "commands"),
    [
        (True, None, [b"KBAI"]),
        (False, None, [b"KBYE", b"KBAI"]),
        (False, STRICT, [b"KBAI"]),
    ],
)
def test_goodbye_is_what_the_peer_understands(
    is_extended: bool, settings: Settings | None, commands: list[bytes]
) -> None:
    for engine in (
        serving(is_extended=is_extended, settings=settings),
        opened(is_extended=is_extended, settings=settings),
    ):
        engine.leave()
        assert [message[2] for message in sent(engine)] == commands


def test_goodbye_to_a_client_that_does_not_read_is_a_notice() -> None:
    engine = broker()
    engine.leave()
    assert engine.messages_to_send() == []
    assert [message[2] for message in engine.notices_to_send()] == [b"KBYE", b"KBAI"]


def test_disconnect_is_the_owners_to_judge() -> None:
    worker, ours = opened("worker"), serving("worker")
    msgid = worker.disconnect()
    assert exchange(worker, ours) == [DisconnectAsked(msgid)]
    assert ours.state == "worker"
    assert exchange(ours, worker) == []
    asked = ours.disconnect()
    assert exchange(ours, worker) == [DisconnectAsked(asked)]


def test_commands_after_the_end_are_dropped_or_a_mistake_where_a_job_would_be_lost() -> None:
    engine = serving("worker")
    engine.close()
    engine.acknowledge(b"x")
    engine.reply(b"x", b"1")
    assert not engine.refuse(b"x", "full", "")
    engine.leave()
    engine.close()
    assert sent(engine) == []
    assert engine.handle_timer(1e6) is None
    with pytest.raises(LocalProtocolError, match="too late"):
        engine.request(b"x", "q", NO_HEADERS, CALL)


DIALECTS: list[tuple[Settings, list[Frames]]] = [
    (RELEASED, [frames(b"INFORM", b'[[40, "email"]]', b"worker", msgid=b"p-1")]),
    (STRICT, [frames(b"INFORM", b'[40, "email"]', b"worker", msgid=b"p-1")]),
    (Settings(), [frames(b"INFORM", b'[[40, "email"]]', b"worker", ANNOUNCED, msgid=b"p-1")]),
]


@pytest.mark.parametrize(("settings", "messages"), DIALECTS)
def test_worker_begins_with_inform_in_its_dialect(settings: Settings, messages: list[Frames]) -> None:
    assert sent(peer("worker", settings, queues=EMAIL)) == messages


def test_peer_tells_a_broker_more_about_itself() -> None:
    engine = peer("worker", about=lambda: Extension(name="w", running=(("job", 2),)))
    event = broker().receive(sent(engine)[0])
    assert isinstance(event, Informed)
    assert (event.extension.name, event.extension.running) == ("w", (("job", 2),))


def test_worker_may_still_have_as_many_jobs_as_it_can_have_slots() -> None:
    running = tuple(("j" * 255, 1 << 30) for _ in range(MOST_RUNNING))
    engine = peer("worker", about=lambda: Extension(name="w", running=running))
    event = broker().receive(sent(engine)[0])
    assert isinstance(event, Informed)
    assert event.extension.running == running


def test_request_with_an_extension_frame_waits_for_inform() -> None:
    engine = broker()
    assert engine.receive(frames(b"REQUEST", b"q", b"guarantee", CALL, b'{"v":1,"limit":2,"key":"k"}')) is None
    (error,) = sent(engine)
    assert (error[2], error[4], error[5]) == (b"ERROR", b"", b"inform")
    assert engine.state == "guest"
    event = engine.receive(frames(b"REQUEST", b"q", b"guarantee", CALL))
    assert isinstance(event, Requested)
