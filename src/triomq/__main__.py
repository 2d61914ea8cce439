"""``python -m triomq`` is the command ``triomq``."""

from triomq.app import main

main()
