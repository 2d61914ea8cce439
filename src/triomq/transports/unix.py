"""Listeners on Unix sockets: a path instead of a port, for clients of the same machine alone."""

import os
import socket
import stat

import trio

from triomq.errors import ConfigError
from triomq.transports.tcp import close_listener_in_forks

_FOR_ITS_USER_ALONE = 0o600


def bind_unix(path: str, *, mode: int = _FOR_ITS_USER_ALONE, backlog: int = 1024) -> trio.SocketListener:
    """Listen on a Unix socket, replacing a socket file without a listener; ``close_listener`` removes the file.

    Args:
        path: The socket file.
        mode: Permissions of the file: its writers may connect.
        backlog: How many connections may wait to be accepted.

    Raises:
        ConfigError: The path cannot be used; the text says what to do.
    """
    if not path or "\0" in path:
        raise ConfigError(f"{path!r} is no path for a Unix socket; give the name of a file, such as /run/triomq.sock")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        listening.bind(path)
        os.chmod(path, mode)  # in time: connecting fails before it listens
        listening.listen(backlog)
    except OSError as error:
        listening.close()
        raise ConfigError(_advice(path, error)) from error
    except ConfigError:
        listening.close()
        raise
    return close_listener_in_forks(trio.SocketListener(trio.socket.from_stdlib_socket(listening)))


def close_listener(listener: trio.SocketListener) -> None:
    """Stop listening at once, and remove the file of a Unix socket."""
    place = listener.socket.getsockname() if listener.socket.fileno() >= 0 else ""
    if isinstance(place, str) and place:
        # While it still listens: a file that is there afterwards may be another program's.
        try:
            os.unlink(place)
        except OSError:
            pass  # gone already, or its directory is
    listener.socket.close()


def _remove_stale(path: str) -> None:
    """Remove a socket file that a program has left behind.

    Raises:
        ConfigError: The file is no socket, or another program listens.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"{path} exists and is no socket; remove it if it is not needed, or choose another path")
    if _answers(path):
        raise ConfigError(f"{path} is in use by another program; stop that one, or choose another path")
    os.unlink(path)


def _answers(path: str) -> bool:
    """Return whether a program listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        try:
            caller.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:
            pass  # it listens, and has many waiting
        return True


def _advice(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"cannot listen on {path}: its directory does not exist; make it, or choose another path"
    if isinstance(error, PermissionError):
        return f"cannot listen on {path}: this user may not write there; choose a directory of its own"
    if error.errno is None:  # the socket module's own: the system has no number for it
        return f"cannot listen on {path}: {error}; a path for a Unix socket has at most 107 bytes"
    return f"cannot listen on {path}: {error.strerror}; choose another path"
