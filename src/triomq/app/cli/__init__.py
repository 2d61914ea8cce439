"""The command line: ``triomq serve`` and what else there is."""

from triomq.app.cli.entry import main

__all__ = ["main"]
