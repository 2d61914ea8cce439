"""Listeners on all addresses of a host, and the sockets that they accept."""

import errno
import socket

import pytest
import trio

from triomq.errors import ConfigError
from triomq.transports import Poller, accept_raw, address_of, bind_tcp, name_of
from triomq.transports.tcp import _advice


def has_ipv6() -> bool:
    """Ask the machine, of which not every one has IPv6."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


async def close(listeners: list[trio.SocketListener]) -> None:
    for listener in listeners:
        await listener.aclose()


class Names(trio.abc.HostnameResolver):
    """Knows some names, as a file of hosts does."""

    def __init__(self, **names: list[str]) -> None:
        self.names = names

    async def getaddrinfo(self, host: object, port: object, *hints: int) -> list[tuple[object, ...]]:
        assert isinstance(host, bytes)
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in self.names[host.decode()]
        ]

    async def getnameinfo(self, address: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


async def hosts_of(listeners: list[trio.SocketListener]) -> list[str]:
    """Connect to all listeners, which have one port; close them, and return their hosts."""
    addresses = [address_of(listener) for listener in listeners]
    assert len({port for _, port in addresses}) == 1
    for host, port in addresses:
        await (await trio.open_tcp_stream(host, port)).aclose()
    await close(listeners)
    return [host for host, _ in addresses]


LOOPBACK = ["127.0.0.1", "::1"] if has_ipv6() else ["127.0.0.1"]


@pytest.mark.parametrize("name", ["localhost", "LocalHost"])
async def test_localhost_is_both_loopback_addresses_whatever_a_resolver_says(name: str) -> None:
    trio.socket.set_custom_hostname_resolver(Names(localhost=["192.0.2.1"], LocalHost=["192.0.2.1"]))
    assert await hosts_of(await bind_tcp(name, 0)) == LOOPBACK


@needs_ipv6
async def test_name_is_all_its_addresses_in_both_families() -> None:
    trio.socket.set_custom_hostname_resolver(Names(both=["::1", "127.0.0.1"]))
    assert await hosts_of(await bind_tcp("both", 0)) == ["::1", "127.0.0.1"]


async def test_several_hosts_are_all_their_addresses_once_each() -> None:
    trio.socket.set_custom_hostname_resolver(Names(mine=["127.0.0.3", "127.0.0.2"]))
    listeners = await bind_tcp(["127.0.0.2", "localhost", "mine", "127.0.0.1"], 0)
    assert await hosts_of(listeners) == ["127.0.0.2", *LOOPBACK, "127.0.0.3"]


async def test_several_hosts_have_the_port_that_was_asked_for() -> None:
    (free,) = await bind_tcp("127.0.0.1", 0)
    port = address_of(free)[1]
    await free.aclose()
    listeners = await bind_tcp(["127.0.0.2", "127.0.0.1"], int(port))
    assert [address_of(listener) for listener in listeners] == [("127.0.0.2", port), ("127.0.0.1", port)]
    await close(listeners)


@pytest.mark.parametrize(
    ("hosts", "used"),
    [
        (["127.0.0.1", "0.0.0.0", "127.0.0.2"], ["0.0.0.0"]),
        pytest.param(["0.0.0.0", "::"], ["0.0.0.0", "::"], marks=needs_ipv6),
        pytest.param(["::", "localhost"], ["::", "127.0.0.1"], marks=needs_ipv6),
    ],
)
async def test_address_that_stands_for_all_covers_those_of_its_family(hosts: list[str], used: list[str]) -> None:
    listeners = await bind_tcp(hosts, 0)
    assert [address_of(listener)[0] for listener in listeners] == used
    assert len({address_of(listener)[1] for listener in listeners}) == 1
    await close(listeners)


async def test_address_that_the_machine_does_not_have_is_passed_over_beside_one_of_the_same_name() -> None:
    trio.socket.set_custom_hostname_resolver(Names(some=["192.0.2.1", "127.0.0.1"], none=["192.0.2.1"]))
    assert await hosts_of(await bind_tcp("some", 0)) == ["127.0.0.1"]
    for hosts in ("none", ["127.0.0.1", "none"], ["some", "192.0.2.1"]):
        with pytest.raises(ConfigError, match=r"cannot listen on (none|192\.0\.2\.1) port"):
            await bind_tcp(hosts, 0)


class Rivals(trio.abc.SocketFactory):
    """Makes sockets, and before some of them takes the port of the last one on another address."""

    def __init__(self, host: str, takes: int) -> None:
        self.host = host
        self.takes = takes
        self.taken: list[socket.socket] = []
        self._last: socket.socket | None = None

    def socket(self, family: int = -1, type: int = -1, proto: int = -1) -> trio.socket.SocketType:
        port = 0 if self._last is None or self._last.fileno() < 0 else self._last.getsockname()[1]
        if port and len(self.taken) < self.takes:
            self.taken.append(socket.create_server((self.host, port)))
        self._last = socket.socket(family, type, proto)
        return trio.socket.from_stdlib_socket(self._last)


async def test_free_port_that_is_taken_on_another_address_is_given_up_for_another_one() -> None:
    rivals = Rivals("127.0.0.2", takes=3)
    trio.socket.set_custom_socket_factory(rivals)
    listeners = await bind_tcp(["127.0.0.1", "127.0.0.2"], 0)
    taken = {rival.getsockname()[1] for rival in rivals.taken}
    for rival in rivals.taken:
        rival.close()
    assert len(taken) == 3
    assert address_of(listeners[0])[1] not in taken
    assert await hosts_of(listeners) == ["127.0.0.1", "127.0.0.2"]


async def test_port_in_use_on_one_of_several_addresses_leaves_none_of_them_open() -> None:
    (taken,) = await bind_tcp("127.0.0.2", 0)
    port = int(address_of(taken)[1])
    with pytest.raises(ConfigError, match=rf"^127\.0\.0\.2 port {port} is in use by another program"):
        await bind_tcp(["127.0.0.1", "127.0.0.2"], port)
    await close(await bind_tcp("127.0.0.1", port))
    await taken.aclose()


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "with\0null"])
async def test_text_that_is_no_host_name_is_an_error(host: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on .* port 5672: .*; check the host name and the port"):
        await bind_tcp(host, 5672)


async def test_address_is_itself_alone() -> None:
    listeners = await bind_tcp("127.0.0.1", 0)
    (address,) = [address_of(listener) for listener in listeners]
    assert address[0] == "127.0.0.1"
    assert address[1] > 0
    await close(listeners)


@needs_ipv6
@pytest.mark.parametrize("host", ["::1", "::"])
async def test_address_may_be_of_ipv6_and_its_peers_are_shown_in_brackets(host: str) -> None:
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
