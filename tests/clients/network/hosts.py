"""Names of hosts whose addresses change: the system's resolver, with some names of a test's own."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Hosts:
    """Addresses by name; made by ``open_hosts``."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}


@contextmanager
def open_hosts() -> Iterator[Hosts]:
    """Have names looked up here first, by everything in this process that asks Python, until the block is left."""
    hosts, system = Hosts(), socket.getaddrinfo

    def look_up(host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return system(hosts.addresses.get(name, host), *args, **options)

    socket.getaddrinfo = look_up
    try:
        yield hosts
    finally:
        socket.getaddrinfo = system
