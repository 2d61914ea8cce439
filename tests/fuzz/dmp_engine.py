"""Fuzz the engine of direct connections in both roles: ``python -m tests.fuzz.dmp_engine --seconds 60 --seed 1``.

Every input is generated from the seed and its number, so that ``--seed 1 --first 4711 --inputs 1`` does one again. What
comes of it is held against the simplest way to read the same octets.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from random import Random

from .dmp_floods import flood
from .dmp_trial import Input, check, check_end, check_kept, check_same, generate, run
from .loop import Violation, fuzz, parse
from .mutations import cut

# Shares of the inputs, as with AMQP.
OCTETS_UP_TO = 400
OCTETS_EVERY = 4
KEPT_EVERY = 50
FLOOD_EVERY = 20_000
BATCH = 100


def one(seed: int, number: int) -> tuple[Input, str]:
    """Do one trial; give the input and how it ended."""
    random = Random(f"direct {seed}:{number}")
    what = generate(random)
    try:
        return what, _try(what, random, number)
    except Violation as violation:
        raise Violation(f"{violation}\n  seed {seed}, input {number}, a {what.describe()}") from violation
    except Exception as error:
        raise Violation(f"raised {error!r}\n  seed {seed}, input {number}, a {what.describe()}") from error


def _try(what: Input, random: Random, number: int) -> str:
    whole = run(what, [what.data])
    check(whole)
    if number % KEPT_EVERY == 0:
        check_kept(whole, len(what.data))
    check_same(whole, run(what, cut(random, what.data)), "cut at a few places")
    if len(what.data) <= OCTETS_UP_TO and number % OCTETS_EVERY == 0:
        octets = run(what, (what.data[at : at + 1] for at in range(len(what.data))))
        check_same(whole, octets, "octet by octet")
        check_end(octets)
    check_end(run(what, cut(random, what.data), active=True))
    ending = whole.ending
    check_end(whole)
    return f"{what.role} of a {what.target}: {ending}"


def play(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Do the trials of these numbers, and now and then a flood."""
    outcomes = Counter[str]()
    for number in numbers:
        outcomes[one(seed, number)[1]] += 1
        if number % FLOOD_EVERY == 0:
            outcomes[flood(Random(f"direct flood {seed}:{number}"))] += 1
    return outcomes


def main(arguments: list[str] | None = None) -> int:
    """Run until time or count is up, or something does not hold."""
    options = parse(__doc__, arguments)
    return fuzz(options, BATCH, lambda numbers: play(options.seed, numbers))


if __name__ == "__main__":
    sys.exit(main())
