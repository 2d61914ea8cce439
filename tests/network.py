"""A network that breaks when a test says so: a TCP proxy between a client and its broker, in a thread of its own.

    client ──▶ a port of the network ──▶ proxy ──▶ the same port of the broker

It may be used from any thread, with any event loop. What is ordered is done when the call returns; what has not broken
goes on, and connections that come later pass. It never waits for a time of its own but in ``lose``.
"""

import random
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Final

import trio

LOCAL: Final = "127.0.0.1"
"""Where brokers are."""

_ABORT: Final = struct.pack("ii", 1, 0)

_RESEND: Final = 0.2
"""Seconds after which TCP sends again what was lost, for the first time; then twice as long, and so on."""


class _Path:
    """One connection through the proxy: a stream at each end."""

    def __init__(self, network: "Network", client: trio.SocketStream, port: int) -> None:
        self._network = network
        self._client = client
        self._port = port
        self._broker: trio.SocketStream | None = None
        self._is_dead = trio.Event()  # nothing passes any more
        self._is_mute = False  # nothing passes towards the broker
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        with self._scope:
            try:
                await self._network.delay()
                try:
                    self._broker = await trio.open_tcp_stream(LOCAL, self._port)
                except OSError:
                    return
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, self._client, self._broker)
                    nursery.start_soon(self._pump, self._broker, self._client)
            finally:
                for stream in (self._client, self._broker):
                    if stream is not None:
                        stream.socket.close()

    async def _pump(self, source: trio.SocketStream, target: trio.SocketStream) -> None:
        try:
            while data := await source.receive_some(16384):
                await self._network.delay()
                await self._pass(source)
                await target.send_all(data)
            await self._pass(source)
            await target.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self._pass(source)
            self._scope.cancel()

    async def _pass(self, source: trio.SocketStream | None = None) -> None:
        if self._is_dead.is_set() or (self._is_mute and source is self._client):
            await trio.sleep_forever()

    def silence(self) -> None:
        """Pass on nothing more, and close nothing."""
        self._is_dead.set()

    def mute(self) -> None:
        """Pass on nothing more towards the broker."""
        self._is_mute = True

    def reset(self, *, client: bool, broker: bool) -> None:
        """Reset the connection towards one side or both; the other stays open, and silent."""
        self._is_dead.set()
        for stream, is_wanted in ((self._client, client), (self._broker, broker)):
            if is_wanted and stream is not None and stream.socket.fileno() >= 0:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
                stream.socket.close()


class Network:
    """The way to a broker; made by ``open_network``.

    Args:
        ports: Those of the broker, at ``LOCAL``; the same ones are listened on here.
        host: Where to listen: another loopback address than the broker's.
    """

    def __init__(self, ports: Collection[int], host: str) -> None:
        self.ports = ports
        self.host = host
        self._listening = trio.CancelScope()
        self._paths: list[_Path] = []
        self._loss = 0.0
        self._random = random.Random(1)
        self._count = 0
        self._came = threading.Condition()
        self._ready = threading.Event()
        self._token: trio.lowlevel.TrioToken
        self._stop = trio.CancelScope()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True, name="network")

    @property
    def port(self) -> int:
        """The first port."""
        return next(iter(self.ports))

    @property
    def count(self) -> int:
        """How many connections have come."""
        return self._count

    # What happens to it

    def reset(self) -> None:
        """Reset all connections, both ways."""
        self._for_all(lambda path: path.reset(client=True, broker=True))

    def fall_silent(self) -> None:
        """Be a black hole for all connections: they stay open, and nothing comes through."""
        self._for_all(lambda path: path.silence())

    def lose_words_of_clients(self) -> None:
        """Carry what brokers say alone, on all connections."""
        self._for_all(lambda path: path.mute())

    def break_for_clients(self) -> None:
        """Reset all connections towards the client alone: the broker's side stays open, and silent."""
        self._for_all(lambda path: path.reset(client=True, broker=False))

    def vanish(self) -> None:
        """Be gone: nobody listens here any more, and what is open is silent."""
        self._order(self._listening.cancel)
        self.fall_silent()

    def lose(self, part: float) -> None:
        """Lose this part of what is sent, from now on; 0 for nothing more.

        TCP sends again what was lost, later each time: so it comes late, and what was sent behind it waits. A
        connection that begins is delayed likewise.
        """
        self._loss = part

    def wait_for(self, count: int, seconds: float = inf) -> bool:
        """Block until so many connections have come; return whether they have."""
        with self._came:
            return self._came.wait_for(lambda: self._count >= count, None if seconds == inf else seconds)

    # In its thread

    def _for_all(self, order: Callable[[_Path], object]) -> None:
        def obey() -> None:
            paths, self._paths = self._paths, []
            for path in paths:
                order(path)

        self._order(obey)

    def _order(self, order: Callable[[], object]) -> None:
        """Have something done in the proxy's thread, and wait for that; the caller may be in a loop of its own."""
        done = threading.Event()

        def obey() -> None:
            order()
            done.set()

        self._token.run_sync_soon(obey)
        assert done.wait(10)

    async def delay(self) -> None:
        """Wait until TCP has got a piece through."""
        wait = _RESEND
        while self._loss and self._random.random() < self._loss:
            await trio.sleep(wait)
            wait = min(2 * wait, 3.2)

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._stop:
            async with trio.open_nursery() as nursery:
                listeners = [(await trio.open_tcp_listeners(port, host=self.host), port) for port in self.ports]
                nursery.start_soon(self._listen, listeners, nursery)
                self._ready.set()
                await trio.sleep_forever()

    async def _listen(self, listeners: list[tuple[list[trio.SocketListener], int]], paths: trio.Nursery) -> None:
        with self._listening:
            async with trio.open_nursery() as nursery:
                for (listener,), port in listeners:
                    serve = partial(self._serve, port)
                    nursery.start_soon(partial(trio.serve_listeners, serve, [listener], handler_nursery=paths))

    async def _serve(self, port: int, client: trio.SocketStream) -> None:
        path = _Path(self, client, port)
        self._paths.append(path)
        with self._came:
            self._count += 1
            self._came.notify_all()
        await path.run()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        self._order(self._stop.cancel)
        self._thread.join(10)
        assert not self._thread.is_alive()


@contextmanager
def open_network(*ports: int, host: str = "127.0.0.2") -> Iterator[Network]:
    """Lead to a broker, until the block is left; arguments as for ``Network``."""
    network = Network(ports, host)
    network.start()
    try:
        yield network
    finally:
        network.stop()
