"""The rule by which a headers sink matches a message's headers against a binding's arguments.

AMQP 0-9-1 section 3.1.3.4; the ``-with-x`` variants are RabbitMQ's.
"""

from collections.abc import Mapping

from triomq.errors import PreconditionFailed

_MODES = ("all", "any", "all-with-x", "any-with-x")


class HeaderRule:
    """A binding's arguments, made ready to be matched many times.

    Without ``x-match`` all headers must match. An argument without a value asks only that the header is present. Names
    that start with ``x-`` count in the ``-with-x`` modes alone.
    """

    __slots__ = ("_any", "_wanted")

    def __init__(self, arguments: Mapping[str, object]) -> None:
        """Read the mode and the wanted headers.

        Raises:
            PreconditionFailed: ``x-match`` is none of the four modes.
        """
        mode = arguments.get("x-match", "all")
        if mode not in _MODES:
            raise PreconditionFailed(
                f"Invalid x-match field value {_shown(mode)}; expected all, any, all-with-x, or any-with-x"
            )
        with_x = str(mode).endswith("-with-x")
        self._any = str(mode).startswith("any")
        self._wanted = {
            name: value
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        }

    @property
    def weight(self) -> int:
        """What a match costs at worst, in comparisons of a header; the rule itself costs as much as two."""
        return 2 + len(self._wanted)

    def matches(self, headers: Mapping[str, object]) -> bool:
        """Return whether a message with these headers passes."""
        for name, wanted in self._wanted.items():
            if _matches(headers, name, wanted) is self._any:
                return self._any
        return not self._any


def _matches(headers: Mapping[str, object], name: str, wanted: object) -> bool:
    if name not in headers:
        return False
    if wanted is None:
        return True
    found = headers[name]
    # True == 1 in Python, on the wire they are different types.
    return type(found) is type(wanted) and found == wanted


def _shown(mode: object) -> str:
    return f'<<"{mode}">>' if isinstance(mode, str) else repr(mode)
