"""Put the same questions to triomq and to RabbitMQ, and print where they differ.

python -m tests.peers.differential --only "dead letter" --all
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence

from .brokers import open_ours, open_theirs
from .comparing import Reason, ask_both, read_reasons, reason_for
from .questions import QUESTIONS


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="questions whose title has this in it")
    parser.add_argument("--unknown", action="store_true", help="print only differences that have no reason")
    parser.add_argument("--all", action="store_true", help="print what both answer alike as well")
    return parser.parse_args(arguments)


def show(title: str, ours: list[str], theirs: list[str], reason: Reason | None) -> None:
    print(f"\n== {title}")
    if ours == theirs:
        print("\n".join(f"   both      {line}" for line in ours))
        return
    print(f"   {f'{reason.because}: {reason.reason}' if reason else 'NO REASON IS KNOWN'}")
    for line in range(max(len(ours), len(theirs))):
        our, their = (said[line] if line < len(said) else "" for said in (ours, theirs))
        if our == their:
            print(f"   both      {our}")
        else:
            print(f"   triomq    {our}\n   RabbitMQ  {their}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print the differences; 1 if one of them has no reason."""
    options = parse(arguments)
    questions = [question for question in QUESTIONS if options.only in question.title]
    with contextlib.ExitStack() as stack:
        ours, theirs = stack.enter_context(open_ours()), stack.enter_context(open_theirs())
        first, second = ask_both(questions, ours, theirs)
    reasons = read_reasons()
    different = [title for title in first if first[title] != second[title]]
    for title in first if options.all else different:
        if options.unknown and reason_for(title, reasons) is not None:
            continue
        show(title, first[title], second[title], reason_for(title, reasons))
    unknown = [title for title in different if reason_for(title, reasons) is None]
    print(f"\n{len(first)} questions, {len(different)} differences, {len(unknown)} of them without a reason")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
