"""The command line: ``triomq serve`` and what else there is."""

from triomq.app.cli.main import main

__all__ = ["main"]
