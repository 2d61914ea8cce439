"""What only single frames show: pipelining, no-wait, properties and tables octet by octet, bodies in many frames."""

import struct
from collections.abc import Callable

import pytest
from pamqp import commands

from peers.raw import BODY, HEADER, RawPeer, content, encode, publish, raw_frame

Basic, Confirm, Exchange, Queue = commands.Basic, commands.Confirm, commands.Exchange, commands.Queue


def get(peer: RawPeer, queue: str) -> tuple[bytes, bytes]:
    """Get one message and give its properties and body as octets."""
    peer.call(1, Basic.Get(queue=queue, no_ack=True), Basic.GetOk)
    return peer.read_content()


def test_gets_sent_at_once_are_answered_in_order(raw_peer: RawPeer) -> None:
    first, second = raw_peer.declare_queue(), raw_peer.declare_queue()
    raw_peer.socket.sendall(publish(1, "", second, b"second") + publish(1, "", first, b"x" * 1_000_000))
    gets = [Basic.Get(queue=queue, no_ack=True) for queue in (first, second, first, second)]
    raw_peer.send(1, *gets)
    for body in (b"x" * 1_000_000, b"second"):
        raw_peer.expect(Basic.GetOk)
        assert raw_peer.read_content()[1] == body
    raw_peer.expect(Basic.GetEmpty)
    raw_peer.expect(Basic.GetEmpty)


def test_everything_sent_at_once_is_answered_in_order(raw_peer: RawPeer, name: str) -> None:
    requests = encode(
        1,
        Exchange.Declare(exchange=name, exchange_type="direct", auto_delete=True),
        Queue.Declare(queue=name, exclusive=True),
        Queue.Bind(queue=name, exchange=name, routing_key="k"),
        Confirm.Select(),
    )
    requests += publish(1, name, "k", b"one") + encode(1, Basic.Get(queue=name, no_ack=True))
    raw_peer.socket.sendall(requests + encode(1, Queue.Purge(queue=name)))
    for reply in (Exchange.DeclareOk, Queue.DeclareOk, Queue.BindOk, Confirm.SelectOk):
        raw_peer.expect(reply)
    # The confirm may come before the `get`s answer or behind it; the replies keep their order.
    found = [raw_peer.read_method()]
    while len(found) < 3:
        if isinstance(found[-1], Basic.GetOk):
            assert raw_peer.read_content()[1] == b"one"
        found.append(raw_peer.read_method())
    replies = [type(method) for method in found if not isinstance(method, Basic.Ack)]
    assert replies == [Basic.GetOk, Queue.PurgeOk]


def test_requests_octet_by_octet_are_understood(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    for octet in publish(1, "", queue, b"slowly") + encode(1, Basic.Get(queue=queue, no_ack=True)):
        raw_peer.socket.send(bytes([octet]))
    raw_peer.expect(Basic.GetOk)
    assert raw_peer.read_content()[1] == b"slowly"


def test_requests_with_no_wait_are_not_answered(raw_peer: RawPeer, name: str) -> None:
    raw_peer.send(
        1,
        Exchange.Declare(exchange=name, exchange_type="direct", nowait=True),
        Exchange.Bind(destination=name, source="amq.topic", routing_key=name, nowait=True),
        Queue.Declare(queue=name, nowait=True),
        Queue.Bind(queue=name, exchange=name, routing_key=name, nowait=True),
        Confirm.Select(nowait=True),
        Basic.Consume(queue=name, consumer_tag="t", no_ack=True, nowait=True),
    )
    raw_peer.socket.sendall(publish(1, "amq.topic", name, b"through both"))
    if isinstance(first := raw_peer.read_method(), Basic.Deliver):
        assert raw_peer.read_content()[1] == b"through both"
        raw_peer.expect(Basic.Ack)
    else:
        assert isinstance(first, Basic.Ack)
        assert raw_peer.read_delivery()[1] == b"through both"
    raw_peer.send(
        1,
        Basic.Cancel("t", nowait=True),
        Queue.Purge(queue=name, nowait=True),
        Exchange.Unbind(destination=name, source="amq.topic", routing_key=name, nowait=True),
        Queue.Delete(queue=name, nowait=True),
        Exchange.Delete(exchange=name, nowait=True),
    )
    raw_peer.call(1, Basic.Qos(), Basic.QosOk)


FIELDS = {
    "t boolean": b"t\x01",
    "b signed octet": b"b\xff",
    "B octet": b"B\xff",
    "s signed short": b"s\xff\xfe",
    "u short": b"u\xff\xfe",
    "I signed long": b"I\xff\xff\xff\xfe",
    "i long": b"i\xff\xff\xff\xfe",
    "l signed long long": b"l" + struct.pack(">q", -(2**62)),
    "f float": b"f" + struct.pack(">f", 1.5),
    "d double": b"d" + struct.pack(">d", 0.1),
    "D decimal": b"D\x02\x00\x00\x30\x39",
    "S long string": b"S\x00\x00\x00\x05\x00\xff\xfeab",
    "S empty string": b"S\x00\x00\x00\x00",
    "T timestamp": b"T" + struct.pack(">Q", 1_700_000_000),
    "V void": b"V",
    "x octets": b"x\x00\x00\x00\x03\x00\x01\x02",
    "A array": b"A\x00\x00\x00\x05t\x00Vb\x07",
    "A empty array": b"A\x00\x00\x00\x00",
    "A array in array": b"A\x00\x00\x00\x0aA\x00\x00\x00\x05A\x00\x00\x00\x00",
    "F empty table": b"F\x00\x00\x00\x00",
    "F table in table": b"F\x00\x00\x00\x0a\x01aF\x00\x00\x00\x03\x01bV",
}


def headers_property(field: bytes) -> bytes:
    """Property flags for headers alone, and a table of one field named k."""
    table = b"\x01k" + field
    return struct.pack(">HI", 1 << 13, len(table)) + table


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_field_of_every_type_passes_unchanged(raw_peer: RawPeer, field: bytes) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.socket.sendall(publish(1, "", queue, b"body", headers_property(field)))
    assert get(raw_peer, queue) == (headers_property(field), b"body")


def test_all_properties_pass_unchanged(raw_peer: RawPeer) -> None:
    def short(text: bytes) -> bytes:
        return bytes([len(text)]) + text

    table = b"\x01a" + b"I\x00\x00\x00\x01" + b"\x01b" + b"S\x00\x00\x00\x01x"
    values = [
        short(b"text/plain"),
        short(b"utf-8"),
        struct.pack(">I", len(table)) + table,
        b"\x02\x05",
        short(b"correlation"),
        short(b"reply"),
        short(b"600000"),
        short(b"id"),
        struct.pack(">Q", 1_700_000_000),
        short(b"kind"),
        short(b"guest"),
        short(b"application"),
        short(b"cluster"),
    ]
    properties = struct.pack(">H", 0xFFFC) + b"".join(values)
    queue = raw_peer.declare_queue()
    raw_peer.socket.sendall(publish(1, "", queue, b"body", properties))
    assert get(raw_peer, queue) == (properties, b"body")


def test_headers_of_fifty_thousand_octets_pass(raw_peer: RawPeer) -> None:
    properties = headers_property(b"S" + struct.pack(">I", 50_000) + b"x" * 50_000)
    queue = raw_peer.declare_queue()
    raw_peer.socket.sendall(publish(1, "", queue, b"", properties))
    assert get(raw_peer, queue) == (properties, b"")


@pytest.mark.parametrize("step", [1, 7, 100])
def test_body_may_be_cut_anywhere(raw_peer: RawPeer, step: int) -> None:
    queue = raw_peer.declare_queue()
    body = bytes(range(256))
    head = raw_frame(HEADER, 1, struct.pack(">HHQ", 60, 0, len(body)) + b"\0\0")
    parts = [raw_frame(BODY, 1, body[start : start + step]) for start in range(0, len(body), step)]
    raw_peer.socket.sendall(encode(1, Basic.Publish(routing_key=queue)) + head + b"".join(parts))
    assert get(raw_peer, queue)[1] == body


def test_contents_of_two_channels_may_interleave(raw_peer: RawPeer) -> None:
    raw_peer.open_channel(2)
    queue = raw_peer.declare_queue()

    def parts(channel: int, body: bytes) -> list[bytes]:
        head = raw_frame(HEADER, channel, struct.pack(">HHQ", 60, 0, len(body)) + b"\0\0")
        halves = [raw_frame(BODY, channel, half) for half in (body[:4], body[4:])]
        return [encode(channel, Basic.Publish(routing_key=queue)), head, *halves]

    for first, second in zip(parts(1, b"channel1"), parts(2, b"channel2"), strict=True):
        raw_peer.socket.sendall(first + second)
    raw_peer.call(1, Basic.Consume(queue=queue, no_ack=True), Basic.ConsumeOk)
    assert sorted(raw_peer.read_delivery()[1] for _ in range(2)) == [b"channel1", b"channel2"]


def test_message_reaches_a_consumer_on_another_channel_number(raw_peer: RawPeer) -> None:
    raw_peer.open_channel(300)
    queue = raw_peer.declare_queue()
    raw_peer.call(300, Basic.Consume(queue=queue, no_ack=True), Basic.ConsumeOk)
    bodies = [b"", b"short", b"x" * 300_000]
    raw_peer.socket.sendall(b"".join(publish(1, "", queue, body) for body in bodies))
    for body in bodies:
        found = raw_peer.read()
        assert found is not None
        assert (found.channel, type(found.decode())) == (300, Basic.Deliver)
        assert raw_peer.read_content()[1] == body


def test_return_comes_before_the_confirm_of_its_publish(raw_peer: RawPeer) -> None:
    raw_peer.call(1, Confirm.Select(), Confirm.SelectOk)
    method = encode(1, Basic.Publish(routing_key="no queue", mandatory=True))
    raw_peer.socket.sendall((method + content(1, b"back", b"\x80\x00\x04text")) * 3)
    confirmed = 0
    for number in range(1, 4):
        while not isinstance(found := raw_peer.read_method(), Basic.Return):
            assert isinstance(found, Basic.Ack)
            confirmed = found.delivery_tag
            assert confirmed < number
        assert (found.reply_code, found.reply_text, found.routing_key) == (312, "NO_ROUTE", "no queue")
        assert raw_peer.read_content() == (b"\x80\x00\x04text", b"back")
    while confirmed < 3:
        confirmed = raw_peer.expect(Basic.Ack).delivery_tag


def test_return_without_confirms_comes_before_any_later_reply(raw_peer: RawPeer) -> None:
    method = encode(1, Basic.Publish(exchange="amq.direct", routing_key="nowhere", mandatory=True))
    raw_peer.socket.sendall(method + content(1, b"back") + encode(1, Basic.Qos()))
    raw_peer.expect(Basic.Return)
    assert raw_peer.read_content()[1] == b"back"
    raw_peer.expect(Basic.QosOk)


def test_every_publish_is_confirmed_once(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.call(1, Confirm.Select(), Confirm.SelectOk)
    raw_peer.socket.sendall(publish(1, "", queue, b"x") * 500 + publish(1, "", "no queue", b"x") * 500)
    open_tags = set(range(1, 1001))
    while open_tags:
        ack = raw_peer.expect(Basic.Ack)
        covered = {tag for tag in open_tags if tag == ack.delivery_tag or (ack.multiple and tag < ack.delivery_tag)}
        assert ack.delivery_tag in covered
        open_tags -= covered


def test_confirms_and_nacks_of_a_bounded_queue_name_the_right_publishes(raw_peer: RawPeer) -> None:
    arguments = {"x-max-length": 10, "x-overflow": "reject-publish"}
    queue = raw_peer.declare_queue(arguments=arguments)
    raw_peer.call(1, Confirm.Select(), Confirm.SelectOk)
    accepted: set[int] = set()
    rejected: set[int] = set()
    for number in range(1, 31):  # one at a time: RabbitMQ looks at the bound a little late
        raw_peer.socket.sendall(publish(1, "", queue, b"x"))
        answer = raw_peer.read_method()
        assert isinstance(answer, Basic.Ack | Basic.Nack)
        assert answer.delivery_tag == number
        (accepted if isinstance(answer, Basic.Ack) else rejected).add(number)
    assert (accepted, rejected) == (set(range(1, 11)), set(range(11, 31)))


def test_consume_ok_comes_before_the_first_delivery(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.socket.sendall(publish(1, "", queue, b"x") * 50)
    for number in range(10):
        raw_peer.call(1, Basic.Consume(queue=queue, consumer_tag=f"t{number}"), Basic.ConsumeOk)
        for _ in range(50):
            assert raw_peer.read_delivery()[0].consumer_tag == f"t{number}"
        raw_peer.call(1, Basic.Cancel(f"t{number}"), Basic.CancelOk)
        raw_peer.call(1, Basic.Recover(requeue=True), Basic.RecoverOk)


def test_acks_under_a_prefetch_of_one_pull_the_queue_through(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.call(1, Basic.Qos(prefetch_count=1), Basic.QosOk)
    raw_peer.socket.sendall(b"".join(publish(1, "", queue, str(number).encode()) for number in range(200)))
    raw_peer.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    for number in range(200):
        method, body = raw_peer.read_delivery()
        assert (method.delivery_tag, body) == (number + 1, str(number).encode())
        raw_peer.send(1, Basic.Ack(method.delivery_tag))


def test_recover_async_has_no_reply(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.socket.sendall(publish(1, "", queue, b"x"))
    raw_peer.call(1, Basic.Get(queue=queue), Basic.GetOk)
    raw_peer.read_content()
    recover_async = raw_frame(1, 1, struct.pack(">HHB", 60, 100, 1))
    raw_peer.socket.sendall(recover_async + encode(1, Basic.Get(queue=queue)))
    assert raw_peer.expect(Basic.GetOk).redelivered
    raw_peer.read_content()


@pytest.mark.parametrize("width", [b"b\x02", b"s\x00\x02", b"I\x00\x00\x00\x02", b"l\x00\x00\x00\x00\x00\x00\x00\x02"])
def test_integer_arguments_come_in_any_width(raw_peer: RawPeer, width: bytes) -> None:
    table = b"\x0cx-max-length" + width
    arguments = b"\0\0" + b"\0" + bytes([0b100]) + struct.pack(">I", len(table)) + table
    raw_peer.socket.sendall(raw_frame(1, 1, struct.pack(">HH", 50, 10) + arguments))
    queue = raw_peer.expect(Queue.DeclareOk).queue
    raw_peer.socket.sendall(b"".join(publish(1, "", queue, body) for body in (b"1", b"2", b"3")))
    assert [get(raw_peer, queue)[1] for _ in range(2)] == [b"2", b"3"]


def test_empty_queue_name_means_the_last_declared(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    for request, reply in (
        (Queue.Bind(exchange="amq.direct", routing_key=queue), Queue.BindOk),
        (Queue.Purge(), Queue.PurgeOk),
        (Basic.Consume(consumer_tag="t", no_ack=True), Basic.ConsumeOk),
    ):
        raw_peer.call(1, request, reply)
    raw_peer.socket.sendall(publish(1, "amq.direct", queue, b"bound"))
    assert raw_peer.read_delivery()[1] == b"bound"


def test_names_need_not_be_ascii(raw: Callable[..., RawPeer], raw_peer: RawPeer) -> None:
    queue = "früh-🐇"
    payload = struct.pack(">HHHB", 50, 10, 0, len(queue.encode())) + queue.encode() + b"\x04\0\0\0\0"
    raw_peer.socket.sendall(raw_frame(1, 1, payload))
    assert raw_peer.expect(Queue.DeclareOk).queue == queue
    get_payload = struct.pack(">HHHB", 60, 70, 0, len(queue.encode())) + queue.encode() + b"\x01"
    head = struct.pack(">HHHBB", 60, 40, 0, 0, len(queue.encode())) + queue.encode() + b"\0"
    raw_peer.socket.sendall(raw_frame(1, 1, head) + content(1, b"x") + raw_frame(1, 1, get_payload))
    assert raw_peer.expect(Basic.GetOk).routing_key == queue
    assert raw_peer.read_content()[1] == b"x"


def test_the_answer_to_an_update_of_the_secret_is_ok(raw_peer: RawPeer) -> None:
    payload = struct.pack(">HH", 10, 70) + struct.pack(">I", 3) + b"new" + b"\x06reason"
    raw_peer.socket.sendall(raw_frame(1, 0, payload))
    answer = raw_peer.read()
    assert answer is not None
    assert answer.payload[:4] == struct.pack(">HH", 10, 71)


def test_flow_on_is_answered_and_consumers_stay(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.call(1, Basic.Consume(queue=queue, no_ack=True), Basic.ConsumeOk)
    assert raw_peer.call(1, commands.Channel.Flow(active=True), commands.Channel.FlowOk).active
    raw_peer.socket.sendall(publish(1, "", queue, b"x"))
    assert raw_peer.read_delivery()[1] == b"x"


# What RabbitMQ refuses and the specification offers


@pytest.fixture
def ours(is_triomq: bool) -> None:
    if not is_triomq:
        pytest.skip("RabbitMQ does not implement this part of the specification")


@pytest.mark.usefixtures("ours")
def test_unsettled_messages_come_again_to_their_consumer_at_a_recover(
    raw: Callable[..., RawPeer], raw_peer: RawPeer
) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.call(1, Basic.Qos(prefetch_count=2), Basic.QosOk)
    raw_peer.call(1, Basic.Consume(queue=queue, consumer_tag="t"), Basic.ConsumeOk)
    raw_peer.socket.sendall(b"".join(publish(1, "", queue, body) for body in (b"1", b"2", b"3")))
    assert [raw_peer.read_delivery()[1] for _ in range(2)] == [b"1", b"2"]
    raw_peer.call(1, Basic.Recover(requeue=False), Basic.RecoverOk)
    again = [raw_peer.read_delivery() for _ in range(2)]
    assert [(body, method.redelivered, method.consumer_tag, method.delivery_tag) for method, body in again] == [
        (b"1", True, "t", 3),
        (b"2", True, "t", 4),
    ]
    raw_peer.send(1, Basic.Ack(4, multiple=True))
    method, body = raw_peer.read_delivery()
    assert (body, method.redelivered) == (b"3", False)


@pytest.mark.usefixtures("ours")
def test_immediate_publish_is_for_consumers_that_are_there(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    immediate = encode(1, Basic.Publish(routing_key=queue, immediate=True))
    raw_peer.call(1, Confirm.Select(), Confirm.SelectOk)
    raw_peer.socket.sendall(immediate + content(1, b"nobody"))
    returned = raw_peer.expect(Basic.Return)
    assert (returned.reply_code, returned.reply_text) == (313, "NO_CONSUMERS")
    assert raw_peer.read_content()[1] == b"nobody"
    assert raw_peer.expect(Basic.Ack).delivery_tag == 1
    raw_peer.call(1, Basic.Consume(queue=queue, no_ack=True), Basic.ConsumeOk)
    raw_peer.socket.sendall(immediate + content(1, b"somebody"))
    seen = {raw_peer.read_method().name: None}
    if "Basic.Deliver" in seen:
        assert raw_peer.read_content()[1] == b"somebody"
        raw_peer.expect(Basic.Ack)
    else:
        assert raw_peer.read_delivery()[1] == b"somebody"


@pytest.mark.usefixtures("ours")
def test_client_that_pauses_gets_nothing_until_it_goes_on(raw_peer: RawPeer) -> None:
    flow, flow_ok = commands.Channel.Flow, commands.Channel.FlowOk
    queue, other = raw_peer.declare_queue(), raw_peer.declare_queue()
    raw_peer.call(1, Basic.Consume(queue=queue, no_ack=True), Basic.ConsumeOk)
    assert not raw_peer.call(1, flow(active=False), flow_ok).active
    raw_peer.socket.sendall(publish(1, "", queue, b"later") + publish(1, "", other, b"now"))
    assert get(raw_peer, other)[1] == b"now"
    assert raw_peer.call(1, flow(active=True), flow_ok).active
    assert raw_peer.read_delivery()[1] == b"later"


@pytest.mark.usefixtures("ours")
def test_prefetch_size_holds_back_octets(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.call(1, Basic.Qos(prefetch_size=150), Basic.QosOk)
    raw_peer.socket.sendall(b"".join(publish(1, "", queue, b"x" * size) for size in (500, 10, 10, 300)))
    raw_peer.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    for count in (1, 2, 1):  # a larger one goes alone
        for _ in range(count):
            method, _ = raw_peer.read_delivery()
        declared = raw_peer.call(1, Queue.Declare(queue=queue, passive=True), Queue.DeclareOk)
        raw_peer.send(1, Basic.Ack(method.delivery_tag, multiple=True))
    assert declared.message_count == 0


def test_transaction_of_many_queues_is_all_or_nothing(raw_peer: RawPeer) -> None:
    queues = [raw_peer.declare_queue() for _ in range(20)]
    raw_peer.call(1, commands.Tx.Select(), commands.Tx.SelectOk)
    publishes = b"".join(publish(1, "", queue, b"x" * 1000) for queue in queues * 10)
    for end, reply, expected in (
        (commands.Tx.Rollback(), commands.Tx.RollbackOk, 0),
        (commands.Tx.Commit(), commands.Tx.CommitOk, 10),
    ):
        raw_peer.socket.sendall(publishes)
        raw_peer.call(1, end, reply)
        for queue in queues:
            found = raw_peer.call(1, Queue.Declare(queue=queue, passive=True), Queue.DeclareOk)
            assert found.message_count == expected
