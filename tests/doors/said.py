"""What is said of messages in these tests: each property with a value that no way has by default."""

from datetime import UTC, datetime

from doors.door import Said

SAID: Said = {
    "routing key": "new.large",
    "persistent": True,
    "content-type": "application/json",
    "content-encoding": "identity",
    "correlation-id": "question-1",
    "reply-to": "answers",
    "message-id": "message-1",
    "type": "order",
    "user-id": "guest",
    "app-id": "shop",
    "priority": 5,
    "expiration": 600.0,
    "timestamp": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "header: text": "blue",
    "header: whole": 7,
    "header: fraction": 2.5,
    "header: time": datetime(2025, 6, 7, 8, 9, 10, tzinfo=UTC),
    "header: truth": True,
}
