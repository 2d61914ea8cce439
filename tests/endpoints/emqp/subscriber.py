"""A plain SUB socket of ZeroMQ, as any program has it."""

import zmq

from triomq.transports.zmq import ZMQSocket, close_context, make_context


class Subscriber:
    """A SUB; made by a test, which starts ``run`` in a task."""

    def __init__(self, port: int, *topics: str, user: str = "") -> None:
        self.context = make_context()
        self.socket = ZMQSocket(self.context, zmq.SUB)
        if user:
            self.socket.socket.plain_username = user.encode()
            self.socket.socket.plain_password = user.encode()
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self.got: list[list[bytes]] = []
        for topic in topics:
            self.subscribe(topic)

    def subscribe(self, topic: str) -> None:
        self.socket.socket.setsockopt_string(zmq.SUBSCRIBE, topic)

    async def run(self) -> None:
        try:
            while True:
                self.got += await self.socket.receive()
        finally:
            self.socket.close()
            await close_context(self.context)
