"""Texts of failures: named by their code, short enough, and readable."""

from triomq.protocols.amqp.codes import PeerError, close_text, show_octets


def test_text_begins_with_the_name_of_its_code() -> None:
    assert close_text(404, "no queue 'q' in vhost '/'") == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert close_text(404, "NOT_FOUND - it is said already") == "NOT_FOUND - it is said already"
    assert close_text(541, "") == "INTERNAL_ERROR"


def test_code_without_a_name_leaves_the_text_alone() -> None:
    assert close_text(200, "Normal shutdown") == "Normal shutdown"


def test_text_is_cut_to_a_short_string_between_characters() -> None:
    text = close_text(403, "æ" * 200)
    assert len(text.encode()) <= 255
    assert text.endswith("æ")


def test_octets_are_shown_as_rabbitmq_shows_them() -> None:
    assert show_octets(b"") == "<<>>"
    assert show_octets(b"x y") == '<<"x y">>'
    assert show_octets(b"\x00<\xff") == "<<0,60,255>>"
    assert show_octets(b"a" * 41) == '<<"' + "a" * 40 + '...">>'
    assert show_octets(bytes(50)).endswith(",0...>>")


def test_failure_always_fits_into_a_close() -> None:
    error = PeerError(501, f"type 255, all octets = {show_octets(bytes([255]) * 99)}: {{invalid_frame_end_marker,255}}")
    assert error.text.endswith("{invalid_frame_end_marker,255}")
