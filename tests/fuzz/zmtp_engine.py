"""Fuzz ZMTP's engine in both roles: ``python -m tests.fuzz.zmtp_engine --seconds 60 --seed 1``.

Every input is generated from the seed and its number, so that ``--seed 1 --first 4711 --inputs 1`` does one again.
"""

import sys

from .zmtp_trial import ZMTPFuzz


def main(arguments: list[str] | None = None) -> int:
    return ZMTPFuzz().main(__doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
