"""The command ``triomq``, with one subcommand in most files."""

from triomq.app.cli.commands import main

__all__ = ["main"]
