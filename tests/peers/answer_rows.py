"""What a broker answers to each request that it refuses: codes and texts, as a table.

`q` and `e` are names of the row's own, `amq.gen` stands for any generated name. Where triomq answers otherwise than
RabbitMQ on purpose, because the specification offers more or asks for more, the row says both.
"""

import struct

from pamqp import commands

from .answers import (
    GENERATED,
    OK,
    RESET,
    Row,
    bare,
    declare,
    denied,
    exchange,
    exclusive,
    failed,
    header,
    inequivalent,
    locked,
    not_found,
    precondition,
    refused,
)
from .raw import content, encode, publish, raw_frame

Basic, Channel, Confirm = commands.Basic, commands.Channel, commands.Confirm
Connection, Exchange, Queue, Tx = commands.Connection, commands.Exchange, commands.Queue, commands.Tx

DEFAULT_EXCHANGE = "operation not permitted on the default exchange"
PUBLISH = encode(1, Basic.Publish(routing_key="nowhere"))
MISSING_Q, MISSING_E = "no.such.queue", "no.such.exchange"


def exchanges(e: str) -> list[Row]:
    """Exchanges: declare, delete, bind."""
    return [
        Row(
            "declare an unknown type",
            [],
            [exchange(e, "nope")],
            failed(503, "COMMAND_INVALID - unknown exchange type 'nope'", 40, 10),
        ),
        Row(
            "declare amq.*",
            [],
            [exchange("amq.foo")],
            denied("exchange name 'amq.foo' contains reserved prefix 'amq.*'", 40, 10),
        ),
        Row("declare the default exchange", [], [exchange("")], denied(DEFAULT_EXCHANGE, 40, 10)),
        Row("declare amq.direct as it is", [], [exchange("amq.direct", durable=True)], OK),
        Row(
            "declare passively, missing",
            [],
            [exchange(MISSING_E, passive=True)],
            not_found("exchange", MISSING_E, 40, 10),
        ),
        Row(
            "redeclare, other type",
            [exchange(e)],
            [exchange(e, "fanout")],
            inequivalent("type", f"exchange '{e}'", "'fanout'", "'direct'", 40),
        ),
        Row(
            "redeclare, other durable",
            [exchange(e)],
            [exchange(e, durable=True)],
            inequivalent("durable", f"exchange '{e}'", "'true'", "'false'", 40),
        ),
        Row(
            "redeclare, other auto-delete",
            [exchange(e)],
            [exchange(e, auto_delete=True)],
            inequivalent("auto_delete", f"exchange '{e}'", "'true'", "'false'", 40),
        ),
        Row(
            "redeclare, other internal",
            [exchange(e)],
            [exchange(e, internal=True)],
            inequivalent("internal", f"exchange '{e}'", "'true'", "'false'", 40),
        ),
        Row(
            "redeclare passively ignores flags", [exchange(e)], [exchange(e, "fanout", passive=True, durable=True)], OK
        ),
        Row("delete, missing", [], [Exchange.Delete(exchange=MISSING_E)], OK),
        Row(
            "delete amq.direct",
            [],
            [Exchange.Delete(exchange="amq.direct")],
            denied("deletion of system exchange 'amq.direct' in vhost '/' not allowed", 40, 20),
        ),
        Row("delete the default exchange", [], [Exchange.Delete(exchange="")], denied(DEFAULT_EXCHANGE, 40, 20)),
        Row(
            "delete if unused, in use",
            [exchange(e), exclusive(), Queue.Bind(exchange=e)],
            [Exchange.Delete(exchange=e, if_unused=True)],
            precondition(f"exchange '{e}' in vhost '/' in use", 40, 20),
        ),
        Row(
            "bind to a missing source",
            [],
            [Exchange.Bind(destination="amq.direct", source=MISSING_E)],
            not_found("exchange", MISSING_E, 40, 30),
        ),
        Row(
            "bind a missing destination",
            [],
            [Exchange.Bind(destination=MISSING_E, source="amq.direct")],
            not_found("exchange", MISSING_E, 40, 30),
        ),
        Row(
            "bind to the default exchange",
            [],
            [Exchange.Bind(destination="amq.direct", source="")],
            denied(DEFAULT_EXCHANGE, 40, 30),
        ),
        Row("unbind what is not bound", [], [Exchange.Unbind(destination="amq.direct", source="amq.fanout")], OK),
    ]


def queues(q: str) -> list[Row]:
    """Queues: declare, bind, delete, purge."""
    return [
        Row(
            "declare amq.*",
            [],
            [declare("amq.foo")],
            denied("queue name 'amq.foo' contains reserved prefix 'amq.*'", 50, 10),
        ),
        Row(
            "declare passively, missing", [], [declare(MISSING_Q, passive=True)], not_found("queue", MISSING_Q, 50, 10)
        ),
        Row(
            "redeclare, other durable",
            [declare(q)],
            [declare(q, durable=True)],
            inequivalent("durable", f"queue '{q}'", "'true'", "'false'", 50),
        ),
        Row("redeclare, not exclusive", [exclusive(q)], [declare(q)], locked(q, 50, 10)),
        Row(
            "redeclare, other auto-delete",
            [declare(q)],
            [declare(q, auto_delete=True)],
            inequivalent("auto_delete", f"queue '{q}'", "'true'", "'false'", 50),
        ),
        Row(
            "redeclare, other x-max-length",
            [exclusive(q, x_max_length=100_000)],
            [exclusive(q, x_max_length=200_000)],
            inequivalent("x-max-length", f"queue '{q}'", "'200000'", "'100000'", 50),
        ),
        Row(
            "redeclare, other x-message-ttl",
            [exclusive(q, x_message_ttl=100_000)],
            [exclusive(q, x_message_ttl=200_000)],
            inequivalent("x-message-ttl", f"queue '{q}'", "'200000'", "'100000'", 50),
        ),
        Row(
            "redeclare, new x-max-length",
            [exclusive(q)],
            [exclusive(q, x_max_length=200_000)],
            inequivalent("x-max-length", f"queue '{q}'", "the value '200000' of type 'signedint'", "none", 50),
        ),
        Row(
            "redeclare, without x-max-length",
            [exclusive(q, x_max_length=100_000)],
            [exclusive(q)],
            inequivalent("x-max-length", f"queue '{q}'", "none", "the value '100000' of type 'signedint'", 50),
        ),
        Row("redeclare passively ignores flags", [exclusive(q)], [declare(q, passive=True, durable=True)], OK),
        Row("declare passively '' with none declared", [], [declare("", passive=True)], not_found("queue", "", 50, 10)),
        Row(
            "bind '' with none declared",
            [],
            [Queue.Bind(exchange="amq.direct")],
            refused(404, "NOT_FOUND - no previously declared queue", 50, 20),
        ),
        Row("bind '' to the last declared", [exclusive()], [Queue.Bind(exchange="amq.direct")], OK),
        Row(
            "bind a missing queue",
            [],
            [Queue.Bind(queue=MISSING_Q, exchange="amq.direct")],
            not_found("queue", MISSING_Q, 50, 20),
        ),
        Row(
            "bind to a missing exchange",
            [exclusive()],
            [Queue.Bind(exchange=MISSING_E)],
            not_found("exchange", MISSING_E, 50, 20),
        ),
        Row("bind to the default exchange", [exclusive()], [Queue.Bind(exchange="")], denied(DEFAULT_EXCHANGE, 50, 20)),
        Row(
            "bind with a bad x-match",
            [exclusive()],
            [Queue.Bind(exchange="amq.headers", arguments={"x-match": "sometimes"})],
            precondition(
                'Invalid x-match field value <<"sometimes">>; expected all, any, all-with-x, or any-with-x', 50, 20
            ),
        ),
        Row(
            "unbind from the default exchange",
            [exclusive()],
            [Queue.Unbind(exchange="")],
            denied(DEFAULT_EXCHANGE, 50, 50),
        ),
        Row("unbind a missing binding", [exclusive()], [Queue.Unbind(exchange="amq.direct", routing_key="never")], OK),
        Row("unbind a missing queue", [], [Queue.Unbind(queue=MISSING_Q, exchange="amq.direct")], OK),
        Row("unbind from a missing exchange", [exclusive()], [Queue.Unbind(exchange=MISSING_E)], OK),
        Row("delete, missing", [], [Queue.Delete(queue=MISSING_Q)], OK),
        Row(
            "delete if empty, not empty",
            [exclusive(q), Confirm.Select(), publish(1, "", q, b"x")],
            [Queue.Delete(if_empty=True)],
            precondition(f"queue '{q}' in vhost '/' not empty", 50, 40),
        ),
        Row(
            "delete if unused, in use",
            [exclusive(q), Basic.Consume(queue=q)],
            [Queue.Delete(queue=q, if_unused=True)],
            precondition(f"queue '{q}' in vhost '/' in use", 50, 40),
        ),
        Row("purge, missing", [], [Queue.Purge(queue=MISSING_Q)], not_found("queue", MISSING_Q, 50, 30)),
    ]


def locked_queues(q: str) -> list[Row]:
    """The exclusive queue of another connection."""
    owner = [exclusive(q)]
    return [
        Row("declare passively", [], [declare(q, passive=True)], locked(q, 50, 10), owner=owner),
        Row("declare", [], [exclusive(q)], locked(q, 50, 10), owner=owner),
        Row("consume", [], [Basic.Consume(queue=q)], locked(q, 60, 20), owner=owner),
        Row("get", [], [Basic.Get(queue=q)], locked(q, 60, 70), owner=owner),
        Row("bind", [], [Queue.Bind(queue=q, exchange="amq.direct")], locked(q, 50, 20), owner=owner),
        Row("delete", [], [Queue.Delete(queue=q)], locked(q, 50, 40), owner=owner),
        Row("purge", [], [Queue.Purge(queue=q)], locked(q, 50, 30), owner=owner),
    ]


def bad_argument(argument: str, value: object, reason: str) -> Row:
    """A declaration with an argument that is refused."""
    text = f"invalid arg '{argument}' for queue '{GENERATED}' in vhost '/': {reason}"
    request = Queue.Declare(exclusive=True, arguments={argument: value})
    return Row(f"{argument}={value!r}", [], [request], precondition(text, 50, 10))


def arguments() -> list[Row]:
    """Arguments of a declaration."""
    return [
        bad_argument("x-max-length", -1, "{value_negative,-1}"),
        bad_argument("x-max-length", "abc", '"expected integer, got longstr"'),
        bad_argument("x-max-length-bytes", -1, "{value_negative,-1}"),
        bad_argument("x-max-length-bytes", "abc", '"expected integer, got longstr"'),
        bad_argument("x-overflow", "nope", "invalid_overflow"),
        bad_argument("x-overflow", 100_000, "{unacceptable_type,signedint}"),
        bad_argument("x-message-ttl", -1, "{value_negative,-1}"),
        bad_argument("x-message-ttl", "abc", '"expected integer, got longstr"'),
        bad_argument("x-message-ttl", 2**63 - 1, f"{{value_too_large,{2**63 - 1}}}"),
        bad_argument("x-expires", 0, "{value_zero,0}"),
        bad_argument("x-expires", -1, "{value_negative,-1}"),
        bad_argument("x-expires", "abc", '"expected integer, got longstr"'),
        bad_argument("x-max-priority", -1, "{value_negative,-1}"),
        bad_argument("x-max-priority", 256, "{max_value_exceeded,256}"),
        bad_argument("x-max-priority", "abc", '"expected integer, got longstr"'),
        bad_argument("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
        bad_argument("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        bad_argument("x-queue-mode", "nope", "\"unsupported queue mode 'nope'\""),
        Row(
            "x-dead-letter-exchange=100000",
            [],
            [Queue.Declare(exclusive=True, arguments={"x-dead-letter-exchange": 100_000})],
            precondition(
                f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue '{GENERATED}' in vhost '/'", 50, 10
            ),
        ),
        Row("a missing dead-letter exchange", [], [exclusive("", x_dead_letter_exchange=MISSING_E)], OK),
        Row("an unknown argument", [], [exclusive("", x_unknown_arg=1)], OK),
    ]


def consumers(q: str) -> list[Row]:
    """Consume, get, settle, limit."""
    return [
        Row("consume, missing queue", [], [Basic.Consume(queue=MISSING_Q)], not_found("queue", MISSING_Q, 60, 20)),
        Row(
            "consume '' with none declared",
            [],
            [Basic.Consume()],
            refused(404, "NOT_FOUND - no previously declared queue", 60, 20),
        ),
        Row(
            "consume with a tag in use",
            [exclusive(), Basic.Consume(consumer_tag="t")],
            [Basic.Consume(consumer_tag="t")],
            failed(530, "NOT_ALLOWED - attempt to reuse consumer tag 't'", 60, 20),
        ),
        Row(
            "consume exclusively, queue in use",
            [exclusive(q), Basic.Consume()],
            [Basic.Consume(exclusive=True)],
            denied(f"queue '{q}' in vhost '/' in exclusive use", 60, 20),
        ),
        Row(
            "consume beside an exclusive consumer",
            [exclusive(q), Basic.Consume(exclusive=True)],
            [Basic.Consume()],
            denied(f"queue '{q}' in vhost '/' in exclusive use", 60, 20),
        ),
        Row(
            "consume with a priority that is none",
            [exclusive(q)],
            [Basic.Consume(arguments={"x-priority": "a"})],
            precondition(
                f"invalid arg 'x-priority' for queue '{q}' in vhost '/': \"expected integer, got longstr\"", 60, 20
            ),
        ),
        Row("consume with a tag that begins with amq.", [exclusive()], [Basic.Consume(consumer_tag="amq.mine")], OK),
        Row("cancel an unknown tag", [], [Basic.Cancel("unknown")], OK),
        Row("get, missing queue", [], [Basic.Get(queue=MISSING_Q)], not_found("queue", MISSING_Q, 60, 70)),
        Row("get, empty queue", [exclusive()], [Basic.Get()], "Basic.GetEmpty"),
        Row("ack an unknown tag", [], [Basic.Ack(42)], precondition("unknown delivery tag 42", 60, 80)),
        Row("ack 0 multiple with nothing outstanding", [], [Basic.Ack(0, multiple=True), Basic.Qos()], "Basic.QosOk"),
        Row("ack 0 single", [], [Basic.Ack(0)], precondition("unknown delivery tag 0", 60, 80)),
        Row("reject an unknown tag", [], [Basic.Reject(9)], precondition("unknown delivery tag 9", 60, 90)),
        Row("nack an unknown tag", [], [Basic.Nack(9)], precondition("unknown delivery tag 9", 60, 120)),
        Row(
            "nack an unknown tag, multiple",
            [],
            [Basic.Nack(9, multiple=True)],
            precondition("unknown delivery tag 9", 60, 120),
        ),
        Row(
            "qos with a prefetch size",
            [],
            [Basic.Qos(prefetch_size=100)],
            failed(540, "NOT_IMPLEMENTED - prefetch_size!=0 (100)", 60, 10),
            ours=OK,
        ),
        Row("recover with requeue", [], [Basic.Recover(requeue=True)], OK),
        Row(
            "recover without requeue",
            [],
            [Basic.Recover(requeue=False)],
            failed(540, "NOT_IMPLEMENTED - requeue=false", 60, 110),
            ours=r"Basic\.RecoverOk",
        ),
        Row(
            "flow off",
            [],
            [Channel.Flow(active=False)],
            failed(540, "NOT_IMPLEMENTED - active=false", 20, 20),
            ours=OK,
        ),
        Row("flow on", [], [Channel.Flow(active=True)], OK),
    ]


def publishes(q: str, e: str) -> list[Row]:
    """Publish."""
    return [
        Row("to a missing exchange", [], [publish(1, MISSING_E, "k", b"x")], not_found("exchange", MISSING_E, 60, 40)),
        Row(
            "to the name amq.default",
            [],
            [publish(1, "amq.default", "k", b"x")],
            not_found("exchange", "amq.default", 60, 40),
        ),
        Row(
            "to an internal exchange",
            [exchange(e, internal=True)],
            [publish(1, e, "k", b"x")],
            denied(f"cannot publish to internal exchange '{e}' in vhost '/'", 60, 40),
        ),
        Row(
            "with the user-id of someone else",
            [],
            [publish(1, "", "k", b"x", b"\x00\x10\x05other")],
            precondition("user_id property set to 'other' but authenticated user was 'guest'", 60, 40),
        ),
        Row(
            "with one's own user-id", [], [publish(1, "", "k", b"x", b"\x00\x10\x05guest"), Basic.Qos()], "Basic.QosOk"
        ),
        Row(
            "immediately, no queue",
            [],
            [encode(1, Basic.Publish(routing_key="k", immediate=True)), content(1, b"x"), encode(1, Basic.Qos())],
            failed(540, "NOT_IMPLEMENTED - immediate=true", 60, 40),
            ours=r"Basic\.QosOk",
        ),
        Row(
            "immediately, no consumer",
            [exclusive(q)],
            [encode(1, Basic.Publish(routing_key=q, immediate=True)), content(1, b"x")],
            failed(540, "NOT_IMPLEMENTED - immediate=true", 60, 40),
            ours=r"Basic\.Return",
        ),
        Row(
            "mandatory, unroutable",
            [],
            [encode(1, Basic.Publish(routing_key="k", mandatory=True)), content(1, b"x")],
            "Basic.Return",
        ),
        Row("confirm.select twice", [Confirm.Select()], [Confirm.Select()], OK),
    ]


def transactions() -> list[Row]:
    """Transactions."""
    return [
        Row("select twice", [Tx.Select()], [Tx.Select()], OK),
        Row("commit of nothing", [Tx.Select()], [Tx.Commit()], "Tx.CommitOk"),
        Row("rollback of nothing", [Tx.Select()], [Tx.Rollback()], "Tx.RollbackOk"),
        Row("select after confirms", [Confirm.Select()], [Tx.Select()], switch("confirm to tx", 90, 10)),
        Row("confirms after select", [Tx.Select()], [Confirm.Select()], switch("tx to confirm", 85, 10)),
        Row("commit without select", [], [Tx.Commit()], precondition("channel is not transactional", 90, 20)),
        Row("rollback without select", [], [Tx.Rollback()], precondition("channel is not transactional", 90, 30)),
        Row("ack an unknown tag", [Tx.Select()], [Basic.Ack(42)], precondition("unknown delivery tag 42", 60, 80)),
        Row(
            "publish to a missing exchange",
            [Tx.Select()],
            [publish(1, MISSING_E, "k", b"x")],
            not_found("exchange", MISSING_E, 60, 40),
        ),
    ]


def switch(modes: str, class_id: int, method_id: int) -> str:
    return precondition(f"cannot switch from {modes} mode", class_id, method_id)


def unexpected(text: str, class_id: int, method_id: int) -> str:
    return failed(505, f"UNEXPECTED_FRAME - {text}", class_id, method_id)


# For frames that should not be, the code and its name are promised; what follows describes RabbitMQ's own parser.
WRONG_HEADER = "expected content header for class 60, got non content header frame instead"
NOT_READABLE = r"connection\.close 50[1-5] .*"
NOT_KNOWN = r"connection\.close (503|540) .*"


def frames() -> list[Row]:
    """Frames that should not be."""
    return [
        Row(
            "bad frame end",
            [],
            [raw_frame(1, 1, struct.pack(">HHIHB", 60, 10, 0, 0, 0), end=b"\0")],
            failed(
                501,
                "FRAME_ERROR - type 1, all octets = <<0,60,0,10,0,0,0,0,0,0,0>>: {invalid_frame_end_marker,0}",
                0,
                0,
            ),
        ),
        Row(
            "unknown frame type",
            [],
            [raw_frame(7, 1, b"x")],
            failed(501, 'FRAME_ERROR - type 7, all octets = <<"x">>: unknown_frame', 0, 0),
        ),
        Row("heartbeat on channel 1", [], [raw_frame(8, 1, b"")], unexpected("type 8, all octets = <<>>", 0, 0)),
        Row(
            "body without method",
            [],
            [raw_frame(3, 1, b"x")],
            unexpected("expected method frame, got non method frame instead", 0, 0),
        ),
        Row(
            "header without method",
            [],
            [header()],
            unexpected("expected method frame, got non method frame instead", 0, 0),
        ),
        Row("method where a header is due", [], [PUBLISH + PUBLISH], unexpected(WRONG_HEADER, 60, 40)),
        Row(
            "header of another class",
            [],
            [PUBLISH + header(class_id=50)],
            unexpected("expected content header for class 60, got one for class 50 instead", 60, 40),
        ),
        Row("header with a weight", [], [PUBLISH + header(weight=1)], unexpected(WRONG_HEADER, 60, 40)),
        Row(
            "body longer than announced",
            [],
            [PUBLISH + header(size=1) + raw_frame(3, 1, b"xy"), Basic.Qos()],
            unexpected("expected content body, got non content body frame instead", 60, 40),
        ),
        Row(
            "method on a channel that is not open",
            [],
            [encode(5, Basic.Qos())],
            failed(504, "CHANNEL_ERROR - expected 'channel.open'", 60, 10),
        ),
        Row(
            "channel.open twice",
            [],
            [Channel.Open()],
            failed(504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10),
        ),
        Row(
            "connection class on channel 1",
            [],
            [encode(1, Connection.Close(reply_code=200, class_id=0, method_id=0))],
            failed(503, "COMMAND_INVALID - unimplemented method", 10, 50),
        ),
        Row(
            "channel class on channel 0",
            [],
            [encode(0, Channel.Open())],
            failed(504, "CHANNEL_ERROR - unexpected method in connection state running", 20, 10),
        ),
        Row("unknown class", [], [bare(99, 10)], RESET, ours=NOT_KNOWN),
        Row("unknown method", [], [bare(60, 199)], RESET, ours=NOT_KNOWN),
        Row(
            "truncated arguments",
            [],
            [bare(60, 10, b"\0\0")],
            failed(501, "FRAME_ERROR - cannot decode <<0,0>>", 60, 10),
        ),
        Row(
            "unknown field type in a table",
            [],
            [bare(50, 10, b"\0\0\0\x04\0\0\0\x04\x01a?\0")],
            RESET,
            ours=NOT_READABLE,
        ),
    ]


def table(q: str, e: str) -> dict[str, Row]:
    """All rows by their titles."""
    groups = {
        "exchange": exchanges(e),
        "queue": queues(q),
        "locked queue": locked_queues(q),
        "argument": arguments(),
        "consumer": consumers(q),
        "publish": publishes(q, e),
        "transaction": transactions(),
        "frame": frames(),
    }
    return {f"{group}: {row.title}": row for group, rows in groups.items() for row in rows}
