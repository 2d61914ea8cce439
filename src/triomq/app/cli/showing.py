"""Names, octets and sizes as people can read them, whatever is in them."""

from collections.abc import Iterator

_HEX_ROW = 32  # octets on a line: 64 letters fit any terminal


def printable(text: str, *, also: str = "") -> str:
    """Show what a terminal would obey as an escape: names and bodies come from anybody.

    Args:
        text: From the broker.
        also: Characters that may stay although they are not printable, such as line ends.
    """
    return "".join(letter if letter.isprintable() or letter in also else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def body_lines(body: bytes) -> Iterator[str]:
    """Show a body: text as text, anything else in hexadecimal."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        yield from (body[start : start + _HEX_ROW].hex(" ", 4) for start in range(0, len(body), _HEX_ROW))
    else:
        yield from printable(text, also="\n\t").split("\n")


def octets(count: int) -> str:
    """Say a size shortly."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{count} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
