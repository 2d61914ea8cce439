"""What the fuzz targets share: their options, the loop until time or count is up, and the figures at its end."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence


class Violation(Exception):
    """Something that must hold whatever comes did not."""


def parse(description: str | None, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so long")
    parser.add_argument("--inputs", type=int, default=0, help="stop after so many inputs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="number of the first input")
    options = parser.parse_args(arguments)
    if not options.seconds and not options.inputs:
        parser.error("say --seconds or --inputs, or both")
    return options


def fuzz(options: argparse.Namespace, batch: int, play: Callable[[range], Counter[str]]) -> int:
    """Play batches of inputs; give the exit code.

    Args:
        options: as ``parse`` gave them.
        batch: inputs after which the clock is looked at.
        play: feeds the inputs of these numbers and counts how they ended.
    """
    began, outcomes, number = time.monotonic(), Counter[str](), options.first
    last = options.first + options.inputs if options.inputs else sys.maxsize
    try:
        while number < last and not (options.seconds and time.monotonic() - began > options.seconds):
            stop = min(number + batch, last)
            outcomes += play(range(number, stop))
            number = stop
    except Violation as violation:
        print(f"VIOLATION: {violation}", file=sys.stderr)
        return 1
    seconds, inputs = time.monotonic() - began, number - options.first
    print(f"{inputs} inputs in {seconds:.0f} s, {inputs / seconds:.0f} a second, seed {options.seed}")
    for name, times in outcomes.most_common():
        print(f"{times:10} {name}")
    return 0
