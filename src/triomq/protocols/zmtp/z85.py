"""Keys as texts of 40 characters (RFC 32, Z85)."""

from typing import Final

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)}
_BASE: Final = 85
_OCTETS, _CHARACTERS = 4, 5


def encode_key(key: bytes) -> str:
    """Return octets, a multiple of four, as text."""
    text = ""
    for start in range(0, len(key), _OCTETS):
        value = int.from_bytes(key[start : start + _OCTETS], "big")
        text += "".join(_DIGITS[value // _BASE**place % _BASE] for place in reversed(range(_CHARACTERS)))
    return text


def decode_key(text: str) -> bytes:
    """Return the octets of a text.

    Raises:
        ValueError: It is none of this form.
    """
    if len(text) % _CHARACTERS or not set(text) <= set(_DIGITS):
        raise ValueError(f"{text!r} is no text of Z85, which has five characters for four octets")
    key = b""
    for start in range(0, len(text), _CHARACTERS):
        value = 0
        for digit in text[start : start + _CHARACTERS]:
            value = value * _BASE + _VALUES[digit]
        if value >= 1 << 32:
            raise ValueError(f"{text!r} is no text of Z85: five of its characters are more than four octets")
        key += value.to_bytes(_OCTETS, "big")
    return key
