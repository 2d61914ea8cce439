"""Listeners on all addresses of a host, and the sockets that they accept."""

import errno
import socket

import pytest
import trio

from triomq.errors import ConfigError
from triomq.transports import Poller, accept_raw, address_of, bind_tcp, name_of
from triomq.transports.tcp import _advice


def addresses_of_localhost() -> set[str]:
    """Ask the machine, of which not every one has IPv6."""
    found = socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)
    return {address[0] for *_, address in found}


async def close(listeners: list[trio.SocketListener]) -> None:
    for listener in listeners:
        await listener.aclose()


async def test_name_is_all_its_addresses_on_one_port() -> None:
    listeners = await bind_tcp("localhost", 0)
    addresses = [address_of(listener) for listener in listeners]
    assert {host for host, _ in addresses} == addresses_of_localhost()
    assert len({port for _, port in addresses}) == 1
    for host, port in addresses:
        stream = await trio.open_tcp_stream(host, port)
        await stream.aclose()
    await close(listeners)


class BothFamilies(trio.abc.HostnameResolver):
    """Knows one name, with an address in each family, as localhost is on most machines."""

    async def getaddrinfo(self, host: object, port: object, *hints: int) -> list[tuple[object, ...]]:
        assert host == b"both.invalid"
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
        ]

    async def getnameinfo(self, address: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


async def test_both_families_get_the_same_free_port() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    trio.socket.set_custom_hostname_resolver(BothFamilies())
    listeners = await bind_tcp("both.invalid", 0)
    (host, port), (other_host, other_port) = [address_of(listener) for listener in listeners]
    assert {host, other_host} == {"127.0.0.1", "::1"}
    assert port == other_port
    await close(listeners)


async def test_address_is_itself_alone() -> None:
    listeners = await bind_tcp("127.0.0.1", 0)
    (address,) = [address_of(listener) for listener in listeners]
    assert address[0] == "127.0.0.1"
    assert address[1] > 0
    await close(listeners)


@pytest.mark.parametrize("host", ["::1", "::"])
async def test_address_may_be_of_ipv6_and_its_peers_are_shown_in_brackets(host: str) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    (listener,) = await bind_tcp(host, 0)
    client = await trio.open_tcp_stream("::1", address_of(listener)[1])
    poller = Poller()
    accepted = accept_raw(await listener.accept(), poller)
    assert accepted.peer == f"[::1]:{client.socket.getsockname()[1]}"
    accepted.close()
    await client.aclose()
    await listener.aclose()
    poller.close()


@pytest.mark.parametrize(
    ("address", "shown"),
    [(("127.0.0.1", 5672), "127.0.0.1:5672"), (("::1", 5672), "[::1]:5672"), ("/run/triomq.sock", "/run/triomq.sock")],
)
def test_addresses_are_written_as_people_know_them(address: tuple[str, int] | str, shown: str) -> None:
    assert name_of(address) == shown


async def test_error_for_a_port_in_use_names_the_remedy() -> None:
    listeners = await bind_tcp("127.0.0.1", 0)
    port = address_of(listeners[0])[1]
    with pytest.raises(ConfigError) as error:
        await bind_tcp("127.0.0.1", port)
    assert str(error.value) == (
        f"127.0.0.1 port {port} is in use by another program; stop that one, or choose another port "
        "(--port 0 takes a free one)"
    )
    await close(listeners)


async def test_host_of_another_machine_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"cannot listen on 192\.0\.2\.1 port 0: .*; check the host name and the port"
    ):
        await bind_tcp("192.0.2.1", 0)


async def test_unknown_host_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on no\.such\.host\.invalid port 5672"):
        await bind_tcp("no.such.host.invalid", 5672)


def test_error_for_a_port_that_needs_rights_names_those_that_do_not() -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    assert _advice("localhost", 80, denied) == (
        "localhost port 80 is not allowed for this user; choose a port above 1023"
    )


async def test_accepted_stream_becomes_a_plain_socket_with_the_peers_name() -> None:
    listeners = await bind_tcp("127.0.0.1", 0)
    client = await trio.open_tcp_stream(*address_of(listeners[0]))
    poller = Poller()
    accepted = accept_raw(await listeners[0].accept(), poller)
    host, port = client.socket.getsockname()
    assert accepted.peer == f"{host}:{port}"
    accepted.close()
    assert await client.receive_some() == b""
    await client.aclose()
    await close(listeners)
    poller.close()


@pytest.mark.parametrize("probes", [False, True])
async def test_peer_is_probed_for_where_that_is_asked(probes: bool) -> None:
    listeners, poller = await bind_tcp("127.0.0.1", 0), Poller()
    with socket.create_connection(address_of(listeners[0])):
        accepted = accept_raw(await listeners[0].accept(), poller, probes=probes)
        asked = accepted._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert bool(asked) is probes
        accepted.close()
    await close(listeners)
    poller.close()


async def test_unix_socket_is_a_local_peer() -> None:
    ours, theirs = socket.socketpair()
    poller = Poller()
    accepted = accept_raw(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), poller)
    assert accepted.peer == "local"
    accepted.close()
    theirs.close()
    poller.close()


async def test_client_that_is_gone_already_is_closed_and_reported() -> None:
    listeners = await bind_tcp("127.0.0.1", 0)
    with socket.create_connection(address_of(listeners[0])) as hasty:
        hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    stream = await listeners[0].accept()
    poller = Poller()
    with pytest.raises(OSError):
        accept_raw(stream, poller)
    assert stream.socket.fileno() == -1
    await close(listeners)
    poller.close()
