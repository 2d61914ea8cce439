"""Times that programs give in seconds and wires have in whole smaller units."""

from triomq.errors import LocalProtocolError


def in_units(name: str, seconds: float, per_second: int, most: int) -> int:
    """Return a time as a wire has it, rounded down.

    Args:
        name: What it is, for the text.
        seconds: How long; no number that is none, nor below 0, nor endless.
        per_second: How many units are a second.
        most: How many units the wire takes.

    Raises:
        LocalProtocolError: It is not such a time.
    """
    if not 0 <= seconds * per_second <= most:
        raise LocalProtocolError(f"{name} is {seconds} s; it takes a number from 0 to {most // per_second}")
    return int(seconds * per_second)
