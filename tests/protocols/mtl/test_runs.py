"""Messages in a row, held against reading each of them singly."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocols.mtl.wire import MESSAGES, confirm, content, reject, response, sent, served
from triomq.protocols import BasicProperties, encode_table
from triomq.protocols.mtl import (
    ConfirmModel,
    ConfirmRun,
    ContentProperties,
    ContentRun,
    ContentsRejected,
    Frames,
    IllFormed,
    MTLDataServer,
    MTLSettings,
    content_suffix,
    encode_content,
)


def told(number: int, address: str) -> bytes:
    return encode_content(ContentProperties(basic=BasicProperties(message_id=f"{number:03d}"), address=address))


contents = st.builds(
    content,
    st.integers(0, 12),
    st.sampled_from([b"", b"x", bytes(101)]),
    resource=st.sampled_from([b"resource", b"resource", b"resource", b"", b"other"]),
    table=st.builds(told, st.integers(0, 99), st.sampled_from(["a", "b"]))
    | st.sampled_from([b"\0\0\0\0", encode_table({"priority": "x"}), b"\0\0\0\1", told(1, "a") + b"x"]),
)
others = st.sampled_from([*MESSAGES.values(), (), (b"\x05",), (b"\x05", b"", b"")])
settlements = st.builds(confirm, st.integers(0, 9), multiple=st.booleans()) | st.builds(reject, st.integers(0, 9))

SETTINGS = MTLSettings(max_message_size=100)


def contents_of(events: Sequence[Any]) -> list[tuple[object, ...]]:
    """Return what runs have, one by one, and all other events as they are."""
    found: list[tuple[object, ...]] = []
    for event in events:
        if not isinstance(event, ContentRun):
            found.append((event,))
            continue
        for table, sequence, body in zip(event.tables, event.sequences, event.bodies, strict=True):
            found.append((event.resource, table, sequence, body, event.kind.properties.address))
    return found


def hear(engine: MTLDataServer, messages: Sequence[Frames], *, in_runs: bool) -> list[Any]:
    events: list[Any] = []
    place = 0
    while place < len(messages):
        run = engine.receive_run(messages, place) if in_runs and messages[place] else None
        event = run if run is not None else engine.receive(messages[place])
        place += run.count if run is not None else 1
        if isinstance(event, ContentRun):
            engine.accept(event.sequences)
        if event is not None:
            events.append(event)
    return events


@given(st.lists(contents | contents | others, max_size=20), st.sampled_from(["none", "full"]))
def test_contents_in_a_row_are_what_they_are_singly(messages: list[Frames], confirmed: ConfirmModel) -> None:
    runs, singly = (served("writer", confirmed, settings=SETTINGS) for _ in range(2))
    assert contents_of(hear(runs, messages, in_runs=True)) == contents_of(hear(singly, messages, in_runs=False))
    assert sent(runs) == sent(singly)


def settled(events: Sequence[Any]) -> list[object]:
    """Return what is confirmed up to which number between two other events."""
    found: list[object] = [(0, set())]
    for event in events:
        if isinstance(event, ConfirmRun):
            up_to, single = found[-1] if isinstance(found[-1], tuple) else (0, set())
            found[-1:] = [(max(up_to, event.up_to), single | set(event.sequences))]
        elif isinstance(event, ContentsRejected):
            found += [event, (0, set())]
    return found


@given(st.lists(settlements, max_size=20), st.sampled_from(["none", "full"]))
def test_confirms_in_a_row_are_what_they_are_singly(messages: list[Frames], confirmed: ConfirmModel) -> None:
    runs, singly = served("reader", confirmed), served("reader", confirmed)
    for engine in (runs, singly):
        engine.send_contents(content_suffix("resource", b"\0\0\0\0"), [b"x"] * 5)
    assert settled(hear(runs, messages, in_runs=True)) == settled(hear(singly, messages, in_runs=False))


def test_run_ends_where_something_else_comes() -> None:
    a, b = told(1, "a"), told(2, "b")
    usual = [content(number, table=a) for number in (1, 2)]
    enders: list[Frames] = [
        content(3, table=b),
        content(2, table=a),
        content(3, bytes(101), table=a),
        content(3, table=a, resource=b""),
        (*content(3, table=a), b""),
        (content(3, table=a)[0] + b"x", b""),
        (b"\x03" + content(3, table=a)[0][1:], b""),
        MESSAGES["Ping"],
        (b"", b""),
        (),
    ]
    for message in enders:
        run = served(settings=SETTINGS).receive_run([*usual, message, content(4, table=a)], 0)
        assert isinstance(run, ContentRun)
        assert (run.count, run.sequences) == (2, [1, 2])


def test_confirms_end_where_something_else_comes() -> None:
    for message in (reject(3), MESSAGES["Ping"], response(1, 200), (confirm(3)[0][:-1] + b"\x02", b""), (b"",), ()):
        engine = served("reader")
        engine.send_contents(content_suffix("resource", b"\0\0\0\0"), [b"x"] * 5)
        assert engine.receive_run([confirm(1), confirm(2), message], 0) == ConfirmRun(0, [1, 2], 2)


def test_ill_formed_messages_are_for_a_closer_look() -> None:
    for frames in ((), (b"\x05",), (b"\x05", b""), (b"\x06" + bytes(9), b""), content(0), content(1, table=b"")):
        assert served().receive_run([frames], 0) is None
        assert isinstance(served().receive(frames), IllFormed)
