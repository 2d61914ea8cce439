"""An endpoint over HTTP that does what the path says, and a peer that speaks by the client's engine."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import ClassVar

import trio
import trio.testing

from triomq.actors import ChildSpec
from triomq.app import Broker, User, open_broker
from triomq.endpoints import TLS, BrokerContext, Endpoint, StreamListener
from triomq.endpoints.http import HTTPConnection
from triomq.errors import AccessRefused, ActorStopped, LimitExceeded, NotFound, PreconditionFailed
from triomq.protocols.http1 import HTTPClientEngine, RequestHead, ResponseBody, ResponseHead, Settings
from triomq.security import ALL
from triomq.transports import Transport

LARGEST = 16 * 1024 * 1024
ERRORS = {
    "found": NotFound("not there"),
    "access": AccessRefused("no"),
    "limit": LimitExceeded("enough"),
    "actor": ActorStopped("gone"),
    "conflict": PreconditionFailed("otherwise"),
}
USERS = {name: User(password=name, permissions={"*": ALL}) for name in ("guest", "other")}


class DeskConnection(HTTPConnection):
    """Does what the first part of a path says."""

    def __init__(
        self, transport: Transport, context: BrokerContext, desk: "Desk", settings: Settings | None, tls: TLS | None
    ) -> None:
        super().__init__(transport, context, realm="desk", settings=settings, tls=tls)
        self.desk = desk

    def wants_login(self, request: RequestHead) -> bool:
        return not request.path.startswith("/open")

    def fields_for(self, request: RequestHead) -> dict[str, str]:
        return {"X-Desk": "here"} if request.path == "/fields" else {}

    def requested(self, request: RequestHead, user: str) -> None:
        self.desk.begun.append(request)
        word, _, rest = request.path[1:].partition("/")
        do: dict[str, Callable[[], None]] = {
            "echo": lambda: self.read_body(request, LARGEST, lambda data, ended: self.answer(request, 200, data)),
            "pieces": lambda: self.read_body(request, LARGEST, partial(self.count, request), pieces=True),
            "wait": lambda: self.let_wait(request),
            "work": lambda: self.desk.working.update({request: self}),
            "large": lambda: self.answer(request, 200, bytes(int(rest))),
            "stream": lambda: self.begin_answer(request, 200),
            "bad": lambda: self.answer(request, 200, headers={"X": "a\r\nb"}),
        }
        if word == "error":
            raise ERRORS[rest]
        do.get(word, lambda: self.answer(request, 200, user.encode()))()

    def let_wait(self, request: RequestHead) -> None:
        self.desk.waiting[request] = self
        self.wait(request)

    def count(self, request: RequestHead, data: bytes, ended: bool) -> None:
        self.desk.pieces.append(len(data))
        if ended:
            self.answer(request, 200, b"%d" % sum(self.desk.pieces))
        elif self.desk.holds:
            self.hold("full")
            self.desk.held.append(partial(self.go_on, "full"))

    def writable(self, request: RequestHead) -> None:
        self.desk.writable += 1

    def request_over(self, request: RequestHead) -> None:
        self.desk.over.append(request)
        self.desk.waiting.pop(request, None)
        self.desk.working.pop(request, None)


class Desk(Endpoint):
    connections: ClassVar[type[DeskConnection]] = DeskConnection

    def __init__(
        self, context: BrokerContext, settings: Settings | None, path: str = "", tls: TLS | None = None
    ) -> None:
        make_client = partial(DeskConnection, context=context, desk=self, settings=settings, tls=tls)
        self.listener = StreamListener(make_client, "127.0.0.1", 0, path=path, tls=tls)
        self.begun: list[RequestHead] = []
        self.over: list[RequestHead] = []
        self.waiting: dict[RequestHead, DeskConnection] = {}
        self.working: dict[RequestHead, DeskConnection] = {}
        self.pieces: list[int] = []
        self.held: list[Callable[[], None]] = []
        self.holds = False
        self.writable = 0
        super().__init__(context, self.listener)

    def connect(self, peer: str = "memory") -> "Peer":
        ours, theirs = trio.testing.memory_stream_pair()
        self.listener.connect_stream(ours, peer)
        return Peer(theirs)

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await trio.testing.wait_all_tasks_blocked()

    async def require_over(self, count: int) -> None:
        """Check that so many requests came, and each of them is over once."""
        await self.until(lambda: len(self.over) >= count)
        assert sorted(map(id, self.over)) == sorted(map(id, self.begun))
        assert len(self.begun) == count


class Peer:
    """One connection, as a user whose password is its name."""

    def __init__(self, stream: trio.abc.Stream, user: str = "guest") -> None:
        self.stream = stream
        self.engine = HTTPClientEngine()
        self.authorization = f"Basic {self.basic(user)}"
        self._heads: list[ResponseHead] = []
        self._bodies: list[bytes] = []

    @staticmethod
    def basic(user: str) -> str:
        from base64 import b64encode

        return b64encode(f"{user}:{user}".encode()).decode()

    def encode(self, target: str, body: bytes = b"", method: str = "POST", **fields: str) -> bytes:
        headers = {"Host": "h", "Authorization": self.authorization, **fields}
        headers = {name: value for name, value in headers.items() if value}
        self.engine.send_request(method, target, headers, body, most=2 * LARGEST)
        return b"".join(self.engine.data_to_send())

    async def send(self, *targets: str, method: str = "POST", **fields: str) -> None:
        await self.stream.send_all(b"".join(self.encode(target, method=method, **fields) for target in targets))

    async def ask(self, target: str, body: bytes = b"", method: str = "POST", **fields: str) -> tuple[int, bytes]:
        await self.stream.send_all(self.encode(target, body, method, **fields))
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        """Return the next answer; status 0 where the connection has ended without one."""
        while not self._bodies:
            if not await self.read():
                return 0, b""
        self.head = self._heads.pop(0)
        return self.head.status, self._bodies.pop(0)

    async def read(self) -> bool:
        """Read once; return whether there may be more."""
        try:
            data = bytes(await self.stream.receive_some(1 << 20))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        self.engine.receive_data(data)
        for event in self.engine.events():
            if isinstance(event, ResponseHead):
                self._heads.append(event)
            elif isinstance(event, ResponseBody):
                self._bodies.append(event.data)
        return bool(data)

    async def ended(self) -> bool:
        """Read until the connection has ended; return True."""
        while await self.read():
            pass
        return True


@asynccontextmanager
async def open_desk(
    settings: Settings | None = None, path: str = "", tls: TLS | None = None, drain: float = 5.0
) -> AsyncIterator[tuple[Broker, Desk]]:
    """Open a broker with a desk in it."""
    async with open_broker(users=USERS, drain=drain) as broker:
        spec = ChildSpec(lambda: Desk(broker.context, settings, path, tls), name="desk")
        await broker.endpoints.start_child(spec)
        desk = broker.endpoints.children["desk"].actor
        assert isinstance(desk, Desk)
        yield broker, desk
