"""The process of a store: ``python -m triomq.store.process``, started by the broker and by nobody else.

It has the store's directory and one end of a socket pair, and nothing of the broker's. When the broker is gone, however
that happened, its end of the pair is closed: then this process commits what it has received whole, and leaves.
"""

import argparse
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from triomq.store.lock import PATIENCE
from triomq.store.server import serve


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the store, until the broker is gone."""
    parser = argparse.ArgumentParser("triomq.store.process", description="The store of a broker; started by it.")
    parser.add_argument("directory", type=Path, help="the store's directory")
    parser.add_argument("--wire", type=int, required=True, help="descriptor of our end of the socket pair")
    parser.add_argument("--fresh", action="store_true", help="the broker starts, and wants to know what is there")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds to wait for the directory's lock")
    parser.add_argument("--reserve", type=int, default=0, help="octets on the disk below which nothing new is kept")
    given = parser.parse_args(arguments)
    os.umask(0o077)  # messages are nobody else's business
    # Ctrl-C and a service manager tell all processes of a group. The broker drains then, and needs its store for that.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    serve(
        socket.socket(fileno=given.wire),
        given.directory,
        fresh=given.fresh,
        patience=given.patience,
        reserve=given.reserve,
    )


if __name__ == "__main__":
    main()
