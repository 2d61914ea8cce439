"""The client for streams by ranges, for programs without an event loop."""
