"""Streams: queues that keep what was read; start with ``log``."""
