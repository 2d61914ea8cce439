"""Kill as often as is wanted: ``python -m crash --rounds 50 --seed 1`` in the directory of the tests."""

import argparse
import random
import sys
import tempfile
from pathlib import Path

import trio

from .scenarios import KILLS, SCENARIOS, run


def main() -> None:
    parser = argparse.ArgumentParser("crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--kill", nargs="+", choices=list(KILLS), default=list(KILLS))
    parser.add_argument("--work", type=int, default=8000)
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    seed = random.getrandbits(32) if given.seed is None else given.seed
    failed = False
    for name in given.only:
        print(f"{name}, seed {seed}")
        kills = random.Random(seed).choices(given.kill, k=given.rounds)
        with tempfile.TemporaryDirectory() as directory:
            oracle = trio.run(run, SCENARIOS[name], Path(directory), kills, seed, *given.options)
        print(f"{name}: {oracle}", *oracle.problems, sep="\n  ")
        failed |= bool(oracle.problems)
    sys.exit(failed)


if __name__ == "__main__":
    main()
