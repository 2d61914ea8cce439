"""Where the command ``triomq`` begins.

It loads the command line when it is called and not before: whoever embeds a broker imports ``triomq.app`` as well, and
would otherwise carry a parser of options (typer: 15 ms, 1.3 MB).
"""

import sys


def main() -> None:
    """Run the command line."""
    from triomq.app.cli.main import make_app

    make_app(sys.argv[1:])()
