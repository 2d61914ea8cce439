"""Listeners on Unix sockets, with real ones."""

import os
import socket
import stat
from pathlib import Path

import pytest
import trio

from triomq.errors import ConfigError
from triomq.transports import Poller, accept_raw, address_of, bind_tcp, bind_unix, close_listener


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "broker.sock")


def exists(path: str) -> bool:
    return os.path.lexists(path)


async def test_peer_is_local_and_the_address_is_the_path(path: str) -> None:
    listener = bind_unix(path)
    assert address_of(listener) == path
    client = await trio.open_unix_socket(path)
    poller = Poller()
    accepted = accept_raw(await listener.accept(), poller)
    assert accepted.peer == "local"
    accepted.close()
    assert await client.receive_some() == b""
    await client.aclose()
    close_listener(listener)
    poller.close()


@pytest.mark.parametrize("mode", [0o600, 0o660])
async def test_only_its_own_user_may_connect_unless_told_otherwise(path: str, mode: int) -> None:
    listener = bind_unix(path, mode=mode) if mode != 0o600 else bind_unix(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == mode
    close_listener(listener)


async def test_the_file_is_gone_when_listening_ends(path: str) -> None:
    close_listener(bind_unix(path))
    assert not exists(path)
    close_listener(bind_unix(path))


async def test_file_that_is_gone_already_is_no_trouble(path: str) -> None:
    listener = bind_unix(path)
    os.unlink(path)
    close_listener(listener)
    assert listener.socket.fileno() == -1
    close_listener(listener)


async def test_tcp_listener_is_closed_in_the_same_way() -> None:
    (listener,) = await bind_tcp("127.0.0.1", 0)
    close_listener(listener)
    assert listener.socket.fileno() == -1


async def test_socket_file_without_a_listener_is_replaced(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
        stale.listen()
    listener = bind_unix(path)
    client = await trio.open_unix_socket(path)
    await client.aclose()
    close_listener(listener)


@pytest.mark.parametrize("waiting", [0, 3])
async def test_socket_file_with_a_listener_is_left_alone(path: str, waiting: int) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen(0)
        callers = [socket.socket(socket.AF_UNIX) for _ in range(waiting)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(path)
        with pytest.raises(ConfigError, match="is in use by another program; stop that one, or choose another path"):
            bind_unix(path)
        assert exists(path)
        for caller in callers:
            caller.close()


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
async def test_file_that_is_no_socket_is_left_alone(path: str, make: object) -> None:
    assert callable(make)
    make(Path(path))
    with pytest.raises(ConfigError, match="exists and is no socket; remove it if it is not needed"):
        bind_unix(path)
    assert exists(path)


@pytest.mark.parametrize(
    ("broken", "advice"),
    [
        ("missing/broker.sock", "its directory does not exist; make it"),
        ("x" * 200, "has at most 107 bytes"),
        ("/dev/null/broker.sock", "choose another path"),
    ],
)
async def test_error_for_an_unusable_path_names_the_remedy(tmp_path: Path, broken: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        bind_unix(str(tmp_path / broken))


@pytest.mark.parametrize("path", ["", "\0hidden", "a\0b"])
async def test_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="is no path for a Unix socket"):
        bind_unix(path)


async def test_directory_of_another_user_is_named_as_the_reason(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    os.chmod(tmp_path, 0o500)
    with pytest.raises(ConfigError, match="this user may not write there"):
        bind_unix(str(tmp_path / "broker.sock"))
