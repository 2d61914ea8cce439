"""What the fixtures for pytest are made of, beside ``open_broker``; apart, so that only tests load it."""

from triomq.app.testing.jobs_in_test import JobsInTest, open_jobs_in_test

__all__ = ["JobsInTest", "open_jobs_in_test"]
