"""Direct connections with nothing but a plain socket: the whole protocol, once a lease is there."""

import socket
import struct

import trio

from triomq import AMQP, open_broker
from triomq.clients import open_amqp
from triomq.protocols.amqp import DirectGet, DirectGetOk, DirectPut, DirectPutOk


def connect(port: int, lease: str) -> socket.socket:
    direct = socket.create_connection(("127.0.0.1", port))
    direct.sendall(b"AMQP\x0a\x01\x00\x01" + bytes([len(lease)]) + lease.encode())
    for _ in range(2):  # one answer to the header, one to the lease
        answer = direct.recv(direct.recv(1)[0], socket.MSG_WAITALL).decode()
        assert answer.startswith("200"), answer
    return direct


def message(key: str, body: bytes) -> bytes:
    # No exchange, the key, no properties, no options, the body; and the size of all that before it.
    rest = b"\0" + bytes([len(key)]) + key.encode() + b"\0\0" + b"\0" + len(body).to_bytes(3, "big") + body
    return struct.pack(">I", len(rest)) + rest


def talk(port: int, queue: str, put: str, get: str) -> None:
    with connect(port, put) as sink, connect(port, get) as feed:
        sink.sendall(message(queue, b"hello") + message(queue, b"world"))
        for _ in range(2):
            (size,) = struct.unpack(">I", feed.recv(4, socket.MSG_WAITALL))
            print(feed.recv(size, socket.MSG_WAITALL)[-5:].decode())


async def main() -> None:
    async with open_broker() as broker:
        listening = await broker.listen(AMQP(port=0))
        async with open_amqp(f"amqp://127.0.0.1:{listening.port}") as amqp, amqp.open_channel() as channel:
            queue = (await channel.declare_queue("mine", exclusive=True)).name
            put = await channel.call(DirectPut(""), DirectPutOk)  # the default exchange takes queues' names for keys
            get = await channel.call(DirectGet(queue), DirectGetOk)
            async with channel.consume(queue, no_ack=True):  # a feed flows while its queue is consumed
                await trio.to_thread.run_sync(talk, listening.port, queue, put.lease, get.lease)


trio.run(main)
