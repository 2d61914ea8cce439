"""Fuzz the engine of direct connections in both roles: ``python -m tests.fuzz.dmp_engine --seconds 60 --seed 1``.

Every input is generated from the seed and its number, so that ``--seed 1 --first 4711 --inputs 1`` does one again.
"""

import sys

from .dmp_trial import DMPFuzz


def main(arguments: list[str] | None = None) -> int:
    return DMPFuzz().main(__doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
