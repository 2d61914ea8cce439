"""A server of one stream for tests of the client: the real engine, in a thread, and a list of chunks."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from triomq.chunks import RecordRun, encode_chunk, read_chunk_head
from triomq.protocols.tap import (
    AbortAsked,
    AckAsked,
    CommitAsked,
    FetchAsked,
    LeaseAsked,
    ListAsked,
    LoginRequested,
    OffsetsAsked,
    PartitionBounds,
    PingAsked,
    ServerEvent,
    Settings,
    StageAsked,
    TapServerEngine,
)


def chunk(first: int, count: int) -> bytes:
    """Make a chunk whose values are the offsets."""
    return encode_chunk(first, 1_000_000, [RecordRun(0, b"", b"k", b"", [b"%d" % (first + n) for n in range(count)])])


class StubServer:
    """Serves one connection after the other; ``asked`` has what clients have said, but their words at log-in.

    ``act`` may answer an event in place of the server, and returns whether it has.
    """

    def __init__(self, sock: socket.socket, settings: Settings) -> None:
        self.asked: list[ServerEvent] = []
        self.chunks = [chunk(10, 5), chunk(15, 1), chunk(16, 4)]
        self.act: Callable[[TapServerEngine, ServerEvent], bool] = lambda engine, event: False
        self._socket = sock
        self._settings = settings

    @property
    def bounds(self) -> PartitionBounds:
        return PartitionBounds(7, read_chunk_head(self.chunks[0]).first, read_chunk_head(self.chunks[-1]).stop, 12)

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        engine = TapServerEngine(now=0.0, settings=self._settings)
        try:
            while not engine.outbox.finished:
                engine.receive_data(connection.recv(65536))
                while events := engine.events():
                    for event in events:
                        self._do(engine, event)
                for piece in engine.data_to_send():
                    connection.sendall(piece)
        except OSError:
            pass

    def _do(self, engine: TapServerEngine, event: ServerEvent) -> None:
        if not isinstance(event, LoginRequested):
            self.asked.append(event)
        if self.act(engine, event):
            return
        match event:
            case LoginRequested(response=response):
                if response == b"\0guest\0guest":
                    engine.welcome()
                else:
                    engine.close("DENIED", "log-in refused")
            case OffsetsAsked(number=number):
                engine.bounds(number, [self.bounds])
            case LeaseAsked(number=number):
                engine.leased(number, self.bounds, 3)
            case ListAsked(number=number):
                engine.streams(number, ["orders"])
            case FetchAsked():
                self._fetch(engine, event)
            case PingAsked(number=n) | AckAsked(number=n) | StageAsked(number=n) | CommitAsked(number=n):
                engine.done(n)
            case AbortAsked(number=number):
                engine.done(number)

    def _fetch(self, engine: TapServerEngine, event: FetchAsked) -> None:
        bounds = self.bounds
        if event.first < bounds.first:
            engine.refuse(event.number, "OUT_OF_RANGE", "gone", bounds)
        elif event.identity not in (None, 7):
            engine.refuse(event.number, "OTHER_STREAM", "another one", bounds)
        else:
            found = [each for each in self.chunks if read_chunk_head(each).stop > event.first]
            engine.records(event.number, bounds, found[:1])


@contextmanager
def serving(sock: socket.socket | None = None, **settings: object) -> Iterator[tuple[StubServer, str]]:
    """Serve on the loopback, or on a socket that listens; yield the server and its URL."""
    own = socket.create_server(("127.0.0.1", 0)) if sock is None else sock
    server = StubServer(own, Settings(**settings))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server, f"tap://127.0.0.1:{own.getsockname()[1]}" if sock is None else ""
    finally:
        own.shutdown(socket.SHUT_RDWR)
        own.close()
        thread.join()
