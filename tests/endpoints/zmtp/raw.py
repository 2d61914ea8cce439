"""Strangers that speak ZeroMQ's wire octet by octet, to a port."""

from types import TracebackType
from typing import Self

import trio

from protocols.zmtp.wire import GREETING, PLAIN_GREETING, hello, initiate, ready


class Stranger:
    """A plain connection; use it as a context manager."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(await trio.open_tcp_stream("127.0.0.1", port))

    @classmethod
    async def greeted(cls, port: int, kind: bytes = b"DEALER", identity: bytes = b"") -> Self:
        """Open a connection with NULL."""
        stranger = await cls.connect(port)
        await stranger.say(GREETING + ready(kind, identity))
        await stranger.hear(b"READY")
        return stranger

    @classmethod
    async def logged_in(cls, port: int, user: bytes, kind: bytes = b"DEALER", identity: bytes = b"") -> Self:
        """Open a connection with PLAIN; a user's password is its name."""
        stranger = await cls.connect(port)
        await stranger.say(PLAIN_GREETING + hello(user, user))
        await stranger.hear(b"WELCOME")
        await stranger.say(initiate(kind, identity))
        await stranger.hear(b"READY")
        return stranger

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await trio.aclose_forcefully(self.stream)

    async def say(self, octets: bytes) -> bool:
        """Send octets; return whether they were taken."""
        try:
            await self.stream.send_all(octets)
        except trio.BrokenResourceError:
            return False
        return True

    async def hear(self, wanted: bytes) -> bytes:
        """Return what has come when something wanted is in it."""
        heard = b""
        with trio.fail_after(60):
            while wanted not in heard:
                some = await self.stream.receive_some(65536)
                assert some, f"the connection ended after {heard!r}"
                heard += some
        return heard

    async def is_ended(self) -> bool:
        """Wait for the end of the connection, and return what it said before that is of interest: nothing."""
        with trio.fail_after(60):
            try:
                while await self.stream.receive_some(65536):
                    pass
            except trio.BrokenResourceError:
                pass
        return True
