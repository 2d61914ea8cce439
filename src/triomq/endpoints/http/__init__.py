"""What endpoints over HTTP share: connections, their requests and polls, and logging in by Basic."""

from triomq.endpoints.http.connection import HTTPAnswer, HTTPConnection, TakeBody, text_answer

__all__ = ["HTTPAnswer", "HTTPConnection", "TakeBody", "text_answer"]
