"""How a value of somebody's is written into a text (an error, a log, a representation): without the secret in it.

A secret does not only stand where it belongs. It is written into the address (``ada:sesame@host``), a URL into the
wrong option, a whole login of another system into a name. So what goes into a text goes through here, whatever it is
called, and what looks like a secret is left out:

    tap://ada:sesame@host:47280           …@host:47280       all before the last @: a password may have any sign in it
    Module password="sesame" user="ada"   Module password=…  and all behind it, for the same reason
    Bearer eyJhbGci                       Bearer …
    -----BEGIN PRIVATE KEY-----           …

So it leaves out too much at times, and never too little of these forms.
"""

import re
from typing import Final

HIDDEN: Final = "…"
"""What stands for what is left out."""

LONGEST: Final = 60
"""Characters of a value that a text repeats."""

_LOOKED_AT: Final = 1000
"""Characters of a value that are searched: more than anybody shows of one."""

_WORD: Final = r"pass(?!ive|ed)|pwd|psw|secret|token|credential|jaas|private|api.?key|access.?key|auth(?:orization)?\b"
_NAME: Final = re.compile(_WORD, re.IGNORECASE)
_BEFORE: Final = re.compile(
    rf"""(?:{_WORD})[\w.-]*\\*["']?\s*(?:=>|[=:])|\b(?:basic|bearer)\s|(?=-----BEGIN)""", re.IGNORECASE
)
"""What a secret stands behind."""


def names_secret(name: str) -> bool:
    """Return whether what is called so is a secret by its name: a password, a token, a login."""
    return _NAME.search(name) is not None


def shown(value: object, longest: int = LONGEST) -> str:
    """Return a value as it is repeated in a text: in quotes if it is one, not too long, and without secrets."""
    text = repr(_without_secrets(value)) if isinstance(value, str) else _without_secrets(repr(value))
    return text if len(text) <= longest + 2 else f"{text[:longest]}{HIDDEN}"


def shown_address(address: str) -> str:
    """Return a host and a port that may be none; what stands behind a colon is shown only if it is a number."""
    return shown(re.sub(r":(?!\d{0,5}(?:[,;\s]|$))[^,;]*", f":{HIDDEN}", _without_secrets(address)))


def _without_secrets(text: str) -> str:
    if "@" in text:
        text = f"{HIDDEN}@{text.rpartition('@')[2]}"
    text = text[:_LOOKED_AT]
    found = _BEFORE.search(text)
    return f"{text[: found.end()]}{HIDDEN}" if found else text
