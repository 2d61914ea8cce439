"""MTL without a client library: a REQ for commands, DEALERs for contents, and what goes over them, octet by octet.

All that a program in another language needs is a binding of ZeroMQ, JSON, and numbers in network byte order. A broker
of ours stands in for yours.
"""

import json
import struct
from base64 import b64encode

import trio
import zmq

from triomq import MTL, open_broker

LEASE, RESPONSE, SUMMON, DISMISS, CONTENT, CONFIRM, PING, PONG = 1, 2, 3, 4, 5, 6, 8, 9


def ask(control: "zmq.Socket[bytes]", name: str, /, **body: object) -> dict[str, object]:
    """Send a command, and return the body of its reply: a code of three digits stands before it."""
    control.send_multipart([name.encode(), json.dumps(body).encode()])
    code, reply = control.recv_multipart()
    assert code < b"300" or code == b"401", (code, reply)
    found: dict[str, object] = json.loads(reply)
    return found


def short(text: str) -> bytes:
    return bytes([len(text.encode())]) + text.encode()


def send(flow: "zmq.Socket[bytes]", kind: int, sequence: int, fields: bytes, body: bytes = b"") -> None:
    """Send a data command: an octet for its kind, eight for its number, its fields; and a body."""
    flow.send_multipart([struct.pack(">BQ", kind, sequence) + fields, body])


def hear(flow: "zmq.Socket[bytes]", wanted: int) -> tuple[int, bytes, bytes]:
    """Wait for a command of a kind; return its number, its fields and its body. Pings are answered meanwhile."""
    while True:
        header, body = flow.recv_multipart()
        if header[0] == PING:
            flow.send_multipart([bytes([PONG]), b""])
        elif header[0] == wanted:
            return int.from_bytes(header[1:9], "big"), header[9:], body


def open_flow(context: "zmq.Context[zmq.Socket[bytes]]", leased: dict[str, object]) -> "zmq.Socket[bytes]":
    """Connect a data flow, straight to the broker, and claim a lease."""
    flow = context.socket(zmq.DEALER)
    flow.connect(f"tcp://127.0.0.1:{leased['port']}")
    send(flow, LEASE, 1, short(str(leased["lease"])))
    assert hear(flow, RESPONSE) == (1, b"", b"200")
    return flow


def by_hand(port: int) -> None:
    with zmq.Context() as context, context.socket(zmq.REQ) as control:
        control.connect(f"tcp://127.0.0.1:{port}")
        ask(control, "Connection.Open", protocol={"name": "MTL", "version": 1})  # 401: who are you?
        response = b64encode(b"\0guest\0guest").decode()
        print(*ask(control, "Connection.Authorize", mechanism="PLAIN", response=response)["profiles"])  # type: ignore[misc]
        ask(control, "Connection.Profile", profile="queue")
        ask(control, "Queue.Create", name="letters")

        with open_flow(context, ask(control, "Connection.Writer", resources=["letters"], confirm="full")) as writer:
            for sequence in (1, 2, 3):
                no_properties = struct.pack(">I", 0)
                send(writer, CONTENT, sequence, short("letters") + no_properties, b"letter %d" % sequence)
            waiting = {1, 2, 3}
            while waiting:  # a Confirm is for all contents up to its number if the octet behind that is 1
                sequence, multiple, _ = hear(writer, CONFIRM)
                waiting = {each for each in waiting if each > sequence} if multiple == b"\1" else waiting - {sequence}

        with open_flow(context, ask(control, "Connection.Reader", resources=["letters"], confirm="full")) as reader:
            send(reader, SUMMON, 2, short("letters"))
            assert hear(reader, RESPONSE) == (2, b"", b"200")
            for _ in range(3):
                sequence, _, body = hear(reader, CONTENT)
                print(sequence, body.decode())
            send(reader, CONFIRM, sequence, b"\1")  # has no answer; but what is behind it has
            send(reader, DISMISS, 3, short("letters"))
            assert hear(reader, RESPONSE) == (3, b"", b"200")
        ask(control, "Connection.Close")


async def main() -> None:
    async with open_broker() as broker:
        listening = await broker.listen(MTL(port=0))
        await trio.to_thread.run_sync(by_hand, listening.port)


trio.run(main)
