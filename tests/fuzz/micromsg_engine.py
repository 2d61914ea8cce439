"""Fuzz MicroMsg2's engine in both roles: ``python -m tests.fuzz.micromsg_engine --seconds 60 --seed 1``.

Every input is generated from the seed and its number, so that ``--seed 1 --first 4711 --inputs 1`` does one again.
"""

import sys

from .micromsg_trial import MicroMsgFuzz


def main(arguments: list[str] | None = None) -> int:
    return MicroMsgFuzz().main(__doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
