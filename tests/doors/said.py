"""What is said of messages in these tests: each property with two values, neither of which any way has by default."""

from datetime import UTC, datetime

from doors.door import Said

SAID: Said = {
    "routing key": "new.large",
    "persistent": True,
    "priority": 5,
    "expiration": 600.0,
    "message-id": "message-1",
    "correlation-id": "question-1",
    "reply-to": "answers",
    "type": "order",
    "content-type": "text/plain",
    "content-encoding": "identity",
    "timestamp": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "user-id": "guest",
    "app-id": "shop",
    "header: text": "blue",
    "header: integer": 7,
    "header: fraction": 2.5,
    "header: time": datetime(2025, 6, 7, 8, 9, 10, tzinfo=UTC),
    "header: boolean": True,
    "header: octets": b"raw",
    "header: list": [1, "a"],
    "header: table": {"a": 1},
}

ALSO_SAID: Said = {
    "routing key": "new.small",
    "persistent": False,
    "priority": 2,
    "expiration": 3600.0,
    "message-id": "message-2",
    "correlation-id": "question-2",
    "reply-to": "more.answers",
    "type": "offer",
    "content-type": "text/csv",
    "content-encoding": "gzip",
    "timestamp": datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),
    "user-id": "guest",  # another one is refused
    "app-id": "office",
    "header: text": "gr\u00fcn",
    "header: integer": -(1 << 40),
    "header: fraction": 0.1,
    "header: time": datetime(1970, 1, 1, tzinfo=UTC),
    "header: boolean": False,
    "header: octets": b"cooked",
    "header: list": [],
    "header: table": {"b": {"c": "d"}},
}

IN_OTHER_FORMS: dict[str, list[Said]] = {
    "text": [
        {
            "header: integer": "7",
            "header: fraction": "2.5",
            "header: time": "Sat, 07 Jun 2025 08:09:10 GMT",
            "header: boolean": "true",
            "header: octets": "raw",
            "header: list": '[1,"a"]',
            "header: table": '{"a":1}',
        },
        {
            "header: integer": "-1099511627776",
            "header: fraction": "0.1",
            "header: time": "Thu, 01 Jan 1970 00:00:00 GMT",
            "header: boolean": "false",
            "header: octets": "cooked",
            "header: list": "[]",
            "header: table": '{"b":{"c":"d"}}',
        },
    ],
    "number": [{"header: boolean": 1}, {"header: boolean": 0}],
    "number, then text": [{"header: boolean": "1"}, {"header: boolean": "0"}],
}
"""What both are where types are lost."""
