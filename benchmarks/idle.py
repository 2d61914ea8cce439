"""What idle connections cost: the broker's CPU while its clients only keep their heartbeats.

python benchmarks/idle.py --connections 9000 --heartbeat 60 --seconds 60 [--silent]

``--silent`` leaves the clients' own heartbeats out, so that only the broker's timers and heartbeats are counted; it
measures for less than two intervals then.
"""

import argparse
import os
import re
import selectors
import socket
import subprocess
import sys
import time

HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def method(payload: bytes) -> bytes:
    return b"\x01\x00\x00" + len(payload).to_bytes(4) + payload + b"\xce"


def opening(heartbeat: int) -> bytes:
    """Everything that a client says until it is connected."""
    start_ok = b"\x00\x0a\x00\x0b" + bytes(4) + b"\x05PLAIN" + (12).to_bytes(4) + b"\0guest\0guest" + b"\x05en_US"
    tune_ok = b"\x00\x0a\x00\x1f" + (2047).to_bytes(2) + (131072).to_bytes(4) + heartbeat.to_bytes(2)
    return HEADER + method(start_ok) + method(tune_ok) + method(b"\x00\x0a\x00\x28\x01/\x00\x00")


def connect(address: tuple[str, int], count: int, heartbeat: int) -> list[socket.socket]:
    opened = []
    for _ in range(count):
        connection = socket.create_connection(address)
        connection.sendall(opening(heartbeat))
        while not (data := connection.recv(65536)).endswith(b"\x00\x0a\x00\x29\x00\xce"):
            assert data, "the broker hung up"
        connection.setblocking(False)
        opened.append(connection)
    return opened


def keep(connections: list[socket.socket], heartbeat: int, seconds: float, *, silent: bool) -> int:
    """Read what comes, and send heartbeats evenly over the interval; count the broker's."""
    heard = 0
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection, selectors.EVENT_READ)
    began, sent = time.monotonic(), 0
    while (now := time.monotonic()) < began + seconds:
        for key, _ in selector.select(0.1):
            assert isinstance(key.fileobj, socket.socket)
            data = key.fileobj.recv(65536)
            assert data, "the broker hung up"
            heard += data.count(HEARTBEAT)
        due = int((now - began) / (heartbeat / 2) * len(connections))
        while not silent and sent < due:
            connections[sent % len(connections)].sendall(HEARTBEAT)
            sent += 1
    return heard


def cpu(process: int) -> tuple[float, float]:
    """Seconds of CPU that a process has used, its own and the kernel's."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(fields[11]) / ticks, int(fields[12]) / ticks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=9000)
    parser.add_argument("--heartbeat", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--silent", action="store_true")
    given = parser.parse_args()
    command = [sys.executable, "-m", "triomq", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
        assert broker.stdout is not None
        found = None
        while found is None:
            found = re.search(r"amqp://(\S+?):(\d+)", broker.stdout.readline())
        host = "127.0.0.1" if "localhost" in found[1] else found[1].rpartition("@")[2]
        connections = connect((host, int(found[2])), given.connections, given.heartbeat)
        time.sleep(1)
        before = cpu(broker.pid)
        heard = keep(connections, given.heartbeat, given.seconds, silent=given.silent)
        used, kernels = (after - earlier for after, earlier in zip(cpu(broker.pid), before, strict=True))
        broker.terminate()
    print(
        f"{given.connections} connections, heartbeat {given.heartbeat} s: {used / given.seconds:.2%} of a core and "
        f"{kernels / given.seconds:.2%} in the kernel, {heard} heartbeats of the broker's in {given.seconds:g} s"
    )


if __name__ == "__main__":
    main()
