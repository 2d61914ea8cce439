"""Names, bodies and sizes for people."""

import pytest

from triomq.app.cli.output import body_lines, printable, size_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("blå 日本", "blå 日本"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\0", r"a\nb\x00"),
        ("right\u202eleft", r"right\u202eleft"),
        ("a\udcff", r"a\udcff"),
    ],
)
def test_characters_that_a_terminal_would_obey_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_line_ends_stay_where_they_may() -> None:
    assert printable("a\n\tb\r", also="\n\t") == "a\n\tb\\r"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b"", [""]),
        ("blå\nto".encode(), ["blå", "to"]),
        (b"\x1b[2J", [r"\x1b[2J"]),
        (b"\xff\x00\x01\x02\x03", ["ff 00010203"]),
        (b"\xff" * 40, ["ffffffff " * 7 + "ffffffff", "ffffffff ffffffff"]),
    ],
)
def test_body_is_text_or_hexadecimal(body: bytes, lines: list[str]) -> None:
    assert list(body_lines(body)) == lines


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 * 1024, "1.5 MiB"), (5 * 1024**5, "5120.0 TiB")],
)
def test_size_is_in_the_largest_unit(count: int, text: str) -> None:
    assert size_text(count) == text
