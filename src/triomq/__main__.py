"""``python -m triomq`` is the command ``triomq``."""

from triomq.app.cli import main

main()
