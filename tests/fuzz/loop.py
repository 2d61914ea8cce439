"""What the fuzz targets share: their options, the loop until time or count is up, and the figures at its end."""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol, TypeVar


class Violation(Exception):
    """Something that must hold whatever comes did not."""


class Described(Protocol):
    """An input that says what it is."""

    def describe(self) -> str: ...


D = TypeVar("D", bound=Described)


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


def fuzz_broker(
    description: str | None, arguments: Sequence[str] | None, batch: int, play: Callable[[int, range], Counter[str]]
) -> int:
    """Play batches of inputs, by seed and numbers, with a broker that logs nothing; give the exit code."""
    options = parse(description, arguments)
    ours = logging.getLogger("triomq")
    level = ours.level
    ours.setLevel(logging.CRITICAL)  # a line for each failure says nothing new here
    try:
        return fuzz(options, batch, lambda numbers: play(options.seed, numbers))
    finally:
        ours.setLevel(level)


def fuzz_inputs(
    description: str | None,
    arguments: Sequence[str] | None,
    batch: int,
    name: str,
    generate: Callable[[Random], D],
    play: Callable[[D], str],
) -> int:
    """Play inputs that are made of nothing but a seed and a number; give the exit code."""
    options = parse(description, arguments)

    def play_all(numbers: range) -> Counter[str]:
        outcomes = Counter[str]()
        for number in numbers:
            given = generate(Random(f"{name} {options.seed}:{number}"))
            try:
                outcomes[play(given)] += 1
            except Exception as error:  # whatever it is, it is told with the input that has led to it
                text = f"{error!r}\n  seed {options.seed}, input {number}, a {given.describe()}"
                raise Violation(text) from error
        return outcomes

    return fuzz(options, batch, play_all)
