"""Lines for people and for programs."""

import io
import json
import logging
import re

import pytest

from triomq.app import JSONLines, Log, TextLines, set_up_logging

MOMENT = 1795176000.1239


def record(event: str, /, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("triomq.test", logging.INFO, __file__, 1, event, arguments, None)
    made.created = MOMENT
    if fields:
        made.fields = fields
    return made


def crashed() -> logging.LogRecord:
    made = record("crashed")
    error = ValueError("first\n2026-11-20T12:00:00.000Z INFO user added")
    made.exc_info = (ValueError, error, None)
    return made


def test_event_is_a_line_with_fields() -> None:
    line = TextLines().format(
        record("connection opened", peer="127.0.0.1:5001", user="guest", vhost="/", connection=12)
    )
    assert line == (
        "2026-11-20T12:00:00.123Z INFO connection opened peer=127.0.0.1:5001 user=guest vhost=/ connection=12"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", 'user=""'),
        ("a b", 'user="a b"'),
        ("a=b", 'user="a=b"'),
        ('a"b\\ c', 'user="a\\"b\\\\ c"'),
        ("a\nINFO user added", 'user="a\\nINFO user added"'),
        ("\r\x1b[2J\x00\x7f", 'user="\\r\\x1b[2J\\x00\\x7f"'),
        ("\u2028\u202e", 'user="\\u2028\\u202e"'),
        ("\udcff", 'user="\\udcff"'),
        ("pässwörd", "user=pässwörd"),
        (None, "user=None"),
    ],
)
def test_peers_cannot_forge_a_line_or_a_field(value: object, shown: str) -> None:
    line = TextLines().format(record("login refused", user=value))
    assert line.partition("refused ")[2] == shown
    assert len(line.splitlines()) == 1


def test_words_are_escaped_too() -> None:
    assert TextLines().format(record("about %s", "a\nb")).endswith(" INFO about a\\nb")


def test_traceback_follows_behind_spaces() -> None:
    first, *rest = TextLines().format(crashed()).splitlines()
    assert first.endswith(" INFO crashed")
    assert rest == ["    ValueError: first", "    2026-11-20T12:00:00.000Z INFO user added"]


def test_programs_get_an_object_for_each_event() -> None:
    line = JSONLines().format(record("connection opened", peer="p", connection=12, user="a\n\udcff", when=None))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2026-11-20T12:00:00.123Z",
        "level": "info",
        "logger": "triomq.test",
        "event": "connection opened",
        "peer": "p",
        "connection": 12,
        "user": "a\n\\udcff",
        "when": "None",
    }


def test_field_cannot_pose_as_the_event() -> None:
    assert json.loads(JSONLines().format(record("opened", event="forged", level="error")))["event"] == "opened"


def test_traceback_is_one_more_field() -> None:
    assert json.loads(JSONLines().format(crashed()))["traceback"].startswith("ValueError: first\n")


@pytest.mark.usefixtures("logging_as_before")
def test_logging_that_is_set_up_again_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logging(Log("info", "text"), first)
    logging.getLogger("triomq.test").info("one")
    set_up_logging(Log("warning", "json"), second)
    logging.getLogger("triomq.test").info("two")
    logging.getLogger("triomq.test").warning("three")
    assert re.fullmatch(r"\S+Z INFO one\n", first.getvalue())
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["three"]


@pytest.mark.usefixtures("logging_as_before")
def test_log_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(Log())
    logging.getLogger("triomq.test").info("one", extra={"fields": {"user": "ada"}})
    assert capsys.readouterr().err.endswith(" INFO one user=ada\n")
