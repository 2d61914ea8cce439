"""A TCP proxy that can be cut, be deaf or refuse: a network that fails when the test says so."""

import socket
import struct

import trio


class Proxy:
    def __init__(self, host: str, port: int, nursery: trio.Nursery) -> None:
        self._target = (host, port)
        self._nursery = nursery
        self._listeners: list[trio.SocketListener] = []
        self._pairs: list[tuple[trio.SocketStream, trio.SocketStream]] = []
        self._stalled: trio.Event | None = None
        self._cut_in: int | None = None
        self.port = 0
        self.accepted = 0
        self.refusing = False

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._listeners = await trio.open_tcp_listeners(port, host=host)
        self.port = self._listeners[0].socket.getsockname()[1]
        self._nursery.start_soon(trio.serve_listeners, self._serve, self._listeners)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def cut(self, *, newest: bool = False) -> None:
        """Reset every connection, both ways, or the newest one alone."""
        kept = len(self._pairs) - 1 if newest else 0
        pairs, self._pairs = self._pairs[max(0, kept) :], self._pairs[: max(0, kept)]
        for pair in pairs:
            for stream in pair:
                # A reset, not an orderly end: nothing that is under way arrives.
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                stream.socket.close()

    def cut_after(self, octets: int) -> None:
        """Cut once the broker has sent so many octets more."""
        self._cut_in = octets

    def stall(self) -> None:
        """Pass nothing on, until ``flow``."""
        self._stalled = trio.Event()

    def flow(self) -> None:
        if self._stalled is not None:
            self._stalled.set()
            self._stalled = None

    async def _serve(self, client: trio.SocketStream) -> None:
        self.accepted += 1
        if self.refusing:
            await client.aclose()
            return
        broker = await trio.open_tcp_stream(*self._target)
        self._pairs.append((client, broker))
        async with broker, trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, client, broker, False, nursery.cancel_scope)
            nursery.start_soon(self._pump, broker, client, True, nursery.cancel_scope)

    async def _pump(
        self, source: trio.SocketStream, target: trio.SocketStream, back: bool, scope: trio.CancelScope
    ) -> None:
        try:
            while data := await source.receive_some(65536):
                if self._stalled is not None:
                    await self._stalled.wait()
                if back and self._cut_in is not None:
                    await target.send_all(data[: self._cut_in])
                    self._cut_in -= len(data)
                    if self._cut_in <= 0:
                        self._cut_in = None
                        self.cut()
                        break
                else:
                    await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        with trio.CancelScope(shield=True):
            for stream in (source, target):
                await trio.aclose_forcefully(stream)
        scope.cancel()
