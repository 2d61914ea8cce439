"""Messages of eMQP for tests: those of the released programs, those of the specification, and those we make."""

from collections.abc import Callable, Sequence

from triomq.protocols.emqp import BrokerEngine, Event, Extension, Frames, PeerEngine, Role, Settings, message_ids
from triomq.protocols.emqp.engine import EMQPEngine

UUID = b"0a6ee61e-9ee1-4fa4-9d15-10af8a6b7c51"
CALL = (
    b'["run", {"callable": "add", "path": "myjobs", "args": [1], "kwargs": {"b": 5}, "class_args": [], '
    b'"class_kwargs": {}}]'
)
"""What a released client has as a message."""

ANNOUNCED = b'{"v":1,"capabilities":["jobs"]}'

RELEASED = Settings(capabilities=())
"""Of a peer, or a broker, that knows no extensions."""


def frames(command: bytes, *rest: bytes, msgid: bytes = UUID) -> Frames:
    return (b"", b"eMQP/1.0", command, msgid, *rest)


# What the released programs send, frame for frame
WORKER_INFORM = frames(b"INFORM", b'[[10, "default"], [40, "email"]]', b"worker")
SCHEDULER_INFORM = frames(b"INFORM", b"", b"scheduler")
READY = frames(b"READY")
REQUEST = frames(b"REQUEST", b"email", b"reply-requested,guarantee,retry-count:2,timeout:5", CALL)
WORKER_REPLY = frames(b"REPLY", b'{"value": 5}', UUID, msgid=b"4f6d")
SCHEDULE = frames(b"SCHEDULE", b"email", b"nohaste,run_count:2", b"60", CALL, b"")
CRON_SCHEDULE = frames(b"SCHEDULE", b"email", b"", b"-1", CALL, b"* * * * *")
UNSCHEDULE = frames(b"UNSCHEDULE", b"email", b"", b"-1", CALL, b"")
HEARTBEAT = frames(b"HEARTBEAT", b"1795237088.0658684")
PUBLISH = frames(b"PUBLISH", b"news", b'"hello"')
KBYE = frames(b"KBYE")
DISCONNECT = frames(b"DISCONNECT")


def broker(settings: Settings | None = None) -> BrokerEngine:
    return BrokerEngine(message_ids(b"b"), now=0.0, unix_time=1e9, settings=settings)


def peer(
    role: Role = "worker",
    settings: Settings | None = None,
    new_id: Callable[[], bytes] | None = None,
    **rest: object,
) -> PeerEngine:
    return PeerEngine(role, new_id or message_ids(b"p"), now=0.0, unix_time=1e9, settings=settings, **rest)  # type: ignore[arg-type]


def sent(engine: EMQPEngine) -> list[Frames]:
    """Return all that an engine sends, notices last."""
    return [*engine.messages_to_send(), *engine.notices_to_send()]


def hear(engine: EMQPEngine, messages: Sequence[Frames]) -> list[Event]:
    return [event for message in messages if (event := engine.receive(message)) is not None]


def serving(role: Role = "worker", *, is_extended: bool = True, settings: Settings | None = None) -> BrokerEngine:
    """Make a broker's engine whose peer has said INFORM."""
    engine = broker(settings)
    engine.receive(frames(b"INFORM", b"", role.encode(), *([ANNOUNCED] if is_extended else []), msgid=b"inform"))
    engine.acknowledge(b"inform")
    sent(engine)
    return engine


def opened(
    role: Role = "worker", *, is_extended: bool = True, settings: Settings | None = None, **rest: object
) -> PeerEngine:
    """Make a peer's engine whose INFORM is acknowledged, or a client's that has gone on without."""
    engine = peer(role, settings, **rest)
    for inform in sent(engine):
        engine.receive(frames(b"ACK", inform[3], *([ANNOUNCED] if is_extended else [])))
    assert engine.state == "open"
    return engine


EXTENSION = Extension(attempt=2, key="k")
