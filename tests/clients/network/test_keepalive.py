"""Clients have TCP's keepalive on: the kernel has a timer for each of their connections."""

import socket
import sys
from pathlib import Path

import pytest
import trio

from clients.network.kinds import KINDS, Kind, Place
from clients.network.table import declare, open_served, ports_of
from network import open_network

HOST = "127.0.0.4"

KEEPALIVE = "02"
"""What stands before the colon of a connection's timer, if that is for keepalive."""


def timers(ports: tuple[int, ...]) -> list[str]:
    """Return the timers of connections from here to these ports of ``HOST``."""
    address = socket.inet_aton(HOST)[::-1].hex().upper()
    mapped = f"0000000000000000FFFF0000{address}"  # as libzmq has it
    places = {f"{host}:{port:04X}" for host in (address, mapped) for port in ports}
    files = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = [line.split() for file in files for line in file.read_text(encoding="ascii").splitlines()[1:]]
    return [row[5].partition(":")[0] for row in rows if row[2] in places and row[3] == "01"]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's list of connections is Linux's")
@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name) for kind in KINDS])
async def test_client_has_keepalive_on(kind: Kind) -> None:
    with trio.fail_after(10):
        async with open_served() as broker:
            ports = ports_of(broker)
            await declare(broker, kind, "q")
            with open_network(*ports[kind.protocol], host=HOST) as network:
                async with kind.open(Place(broker, HOST, ports, "q")) as client, trio.open_nursery() as nursery:
                    if not kind.returns:  # it connects when it is used
                        nursery.start_soon(client.receive)
                    await trio.to_thread.run_sync(network.wait_for, 1)
                    # While something is on its way its timer is the one that there is.
                    while not (found := timers(ports[kind.protocol])) or set(found) != {KEEPALIVE}:  # noqa: ASYNC110
                        await trio.sleep(0.01)
                    nursery.cancel_scope.cancel()
