"""Fuzz the AMQP engine in both roles: ``python -m tests.fuzz.amqp_engine --seconds 60 --seed 1``.

Every input is generated from the seed and its number, so that ``--seed 1 --first 4711 --inputs 1`` does one again.
"""

import argparse
import sys
import time
from collections import Counter
from random import Random

from .engine_trial import Input, Violation, check_end, check_kept, compare, generate, outcome, run
from .floods import flood
from .mutations import cut

# Shares of the inputs: most are short, and most of the work is in the single octets.
OCTETS_UP_TO = 400
OCTETS_EVERY = 4
KEPT_EVERY = 50
FLOOD_EVERY = 20_000


def one(seed: int, number: int) -> tuple[Input, str]:
    """Do one trial; give the input and how it ended."""
    random = Random(f"{seed}:{number}")
    what = generate(random)
    try:
        return what, _try(what, random, number)
    except Violation as violation:
        raise Violation(f"{violation}\n  seed {seed}, input {number}, a {what.describe()}") from violation
    except Exception as error:
        raise Violation(f"raised {error!r}\n  seed {seed}, input {number}, a {what.describe()}") from error


def _try(what: Input, random: Random, number: int) -> str:
    whole = run(what, [what.data])
    if number % KEPT_EVERY == 0:
        check_kept(whole, len(what.data))
    compare(whole, run(what, cut(random, what.data)), "cut at a few places")
    if len(what.data) <= OCTETS_UP_TO and number % OCTETS_EVERY == 0:
        octets = run(what, (what.data[at : at + 1] for at in range(len(what.data))))
        compare(whole, octets, "octet by octet")
        check_end(octets)
    check_end(run(what, cut(random, what.data), active=True))
    result = outcome(whole)
    check_end(whole)
    return result


def main(arguments: list[str] | None = None) -> int:
    """Run until time or count is up, or something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so long")
    parser.add_argument("--inputs", type=int, default=0, help="stop after so many inputs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="number of the first input")
    options = parser.parse_args(arguments)
    if not options.seconds and not options.inputs:
        parser.error("say --seconds or --inputs, or both")
    began, outcomes, number = time.monotonic(), Counter[str](), options.first
    try:
        while not options.inputs or number < options.first + options.inputs:
            if options.seconds and number % 100 == 0 and time.monotonic() - began > options.seconds:
                break
            outcomes[one(options.seed, number)[1]] += 1
            if number % FLOOD_EVERY == 0:
                outcomes[flood(Random(f"flood {options.seed}:{number}"))] += 1
            number += 1
    except Violation as violation:
        print(f"VIOLATION: {violation}", file=sys.stderr)
        return 1
    seconds, inputs = time.monotonic() - began, number - options.first
    print(f"{inputs} inputs in {seconds:.0f} s, {inputs / seconds:.0f} a second, seed {options.seed}")
    for name, times in outcomes.most_common():
        print(f"{times:10} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
