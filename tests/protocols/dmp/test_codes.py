"""Responses as they stand on the wire."""

from triomq.protocols.dmp import CODE_NAMES, response


def test_response_is_a_short_string_of_code_word_and_text() -> None:
    assert response(200, "DMP/0.1") == b"\x0e200 OK DMP/0.1"
    assert response(402, "") == b"\x0d402 BAD-LEASE"


def test_long_text_is_cut() -> None:
    octets = response(541, "ä" * 300)
    assert len(octets) == 256
    assert octets[0] == 255


def test_the_codes_are_those_of_the_specification() -> None:
    assert set(CODE_NAMES) == {200, 402, 403, 404, 502, 503, 530, 540, 541}
