"""TLS on raw sockets: data in both directions, failed handshakes and their reasons, and ends."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
import trio.lowlevel
import trustme

from triomq.errors import ConfigError
from triomq.transports import RECEIVE_SIZE, TLS, Poller, RawSocket, TLSSocket, make_context

AUTHORITY = trustme.CA()
SERVER = AUTHORITY.issue_cert("localhost")


class Files:
    """Certificates and keys as files."""

    def __init__(self, folder: Path, server: trustme.LeafCert = SERVER) -> None:
        self.key, self.certificate, self.authority = (
            str(folder / name) for name in ("key.pem", "certificate.pem", "authority.pem")
        )
        server.private_key_pem.write_to_path(self.key)
        server.cert_chain_pems[0].write_to_path(self.certificate)
        AUTHORITY.cert_pem.write_to_path(self.authority)

    def tls(self, **options: object) -> TLS:
        return TLS(self.certificate, self.key, **options)  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def client_context(**options: object) -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    for name, value in options.items():
        setattr(context, name, value)
    return context


Client: TypeAlias = "trio.SSLStream[trio.SocketStream]"
Dial: TypeAlias = "Callable[..., Awaitable[tuple[Server, Client]]]"


class Driver:
    """Who a transport works for: what has come, and how often everything has left."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.drains = 0
        self.ended = trio.Event()

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    def received(self, data: bytes) -> None:
        assert not self.ended.is_set()
        self.chunks.append(data)
        if not data:
            self.ended.set()

    def drained(self) -> None:
        self.drains += 1


class Server:
    """One side of a socket pair with TLS on it, watched by a poller."""

    def __init__(self, ours: socket.socket, poller: Poller, tls: TLS) -> None:
        self.driver = Driver()
        self.secured = trio.Event()
        self.failures: list[str] = []
        self.transport = TLSSocket(
            RawSocket(ours, "a peer", poller), make_context(tls), secured=self._secured, failed=self._failed
        )

    def _secured(self, transport: TLSSocket) -> None:
        transport.start(self.driver)
        self.secured.set()

    def _failed(self, transport: TLSSocket, reason: str) -> None:
        self.failures.append(reason)
        self.secured.set()


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.close()


@pytest.fixture
async def watched(poller: Poller, nursery: trio.Nursery) -> Poller:
    nursery.start_soon(poller.run)
    return poller


@pytest.fixture
async def dial(watched: Poller) -> AsyncIterator[Dial]:
    """Connect a client, which is closed after the test."""
    opened: list[trio.SocketStream] = []

    async def dial(tls: TLS, context: ssl.SSLContext | None = None) -> tuple[Server, Client]:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        opened.append(trio.SocketStream(trio.socket.from_stdlib_socket(theirs)))
        server = Server(ours, watched, tls)
        return server, trio.SSLStream(opened[-1], context or client_context(), server_hostname="localhost")

    yield dial
    for stream in opened:
        stream.socket.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_data_passes_both_ways_and_both_ends_close(files: Files, dial: Dial, version: ssl.TLSVersion) -> None:
    server, client = await dial(files.tls(), client_context(maximum_version=version))
    with trio.fail_after(60):
        await client.send_all(b"hello")
        await server.secured.wait()
        while server.driver.data != b"hello":
            await trio.lowlevel.checkpoint()
        server.transport.send_nowait((b"good ", memoryview(b"day")))
        assert await client.receive_some() == b"good day"
        server.transport.end_sending()
        assert await client.receive_some() == b""  # without a goodbye this would be an error
        await client.aclose()
        await server.driver.ended.wait()
    server.transport.close()


async def test_much_passes_in_order_however_slowly_it_is_read(files: Files, dial: Dial) -> None:
    server, client = await dial(files.tls())
    much = bytes(range(256)) * 20_000
    found = bytearray()
    with trio.fail_after(60):
        await client.do_handshake()
        await server.secured.wait()
        assert not server.transport.send_nowait((much, b"end"))
        while len(found) < len(much) + 3:
            found += await client.receive_some(70_000)
        assert server.driver.drains >= 1
        assert server.transport.progress > 0
        assert found == much + b"end"
        server.transport.receive_size = RECEIVE_SIZE * 4
        await client.send_all(much)
        while len(server.driver.data) < len(much):
            await trio.lowlevel.checkpoint()
        assert server.driver.data == much
    server.transport.close()


async def test_paused_data_waits(files: Files, dial: Dial) -> None:
    server, client = await dial(files.tls())
    with trio.fail_after(60):
        await client.do_handshake()
        await server.secured.wait()
        server.transport.pause_reading()
        await client.send_all(b"patience")
        await trio.testing.wait_all_tasks_blocked()
        assert server.driver.data == b""
        server.transport.resume_reading()
        while server.driver.data != b"patience":
            await trio.lowlevel.checkpoint()
        server.transport.notify_drained()
        while not server.driver.drains:
            await trio.lowlevel.checkpoint()
    server.transport.close()


async def test_data_that_comes_with_the_end_of_the_handshake_is_received(files: Files, dial: Dial) -> None:
    server, client = await dial(files.tls())
    with trio.fail_after(60):
        server.transport.pause_reading()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, b"early")
            await trio.testing.wait_all_tasks_blocked()
            server.transport.resume_reading()
        while server.driver.data != b"early":
            await trio.lowlevel.checkpoint()
    server.transport.close()


async def test_client_that_does_not_trust_our_authority_gets_no_data(files: Files, dial: Dial) -> None:
    server, client = await dial(files.tls(), ssl.create_default_context())
    with trio.fail_after(60):
        with pytest.raises(trio.BrokenResourceError):
            await client.do_handshake()
        await client.transport_stream.aclose()
        await server.secured.wait()
    assert len(server.failures) == 1
    server.transport.close()


@pytest.mark.parametrize("words", [b"AMQP\0\0\x09\x01", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x00\x05hello"])
async def test_client_without_tls_fails_once(files: Files, watched: Poller, words: bytes) -> None:
    ours, theirs = socket.socketpair()
    server = Server(ours, watched, files.tls())
    theirs.sendall(words)
    with trio.fail_after(60):
        await server.secured.wait()
    theirs.sendall(words)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert len(server.failures) == 1
    assert server.failures[0]
    server.transport.close()
    theirs.close()


async def test_client_that_leaves_in_the_handshake_fails_without_a_reason(files: Files, watched: Poller) -> None:
    ours, theirs = socket.socketpair()
    server = Server(ours, watched, files.tls())
    theirs.close()
    with trio.fail_after(60):
        await server.secured.wait()
    assert server.failures == [""]
    server.transport.close()


async def test_plain_data_ends_the_stream(files: Files, dial: Dial) -> None:
    server, client = await dial(files.tls())
    with trio.fail_after(60):
        await client.do_handshake()
        await server.secured.wait()
        await client.transport_stream.send_all(b"in the clear" * 10)
        await server.driver.ended.wait()
        assert server.driver.data == b""
        assert server.transport.send_nowait((b"",))
    server.transport.close()
    assert server.transport.send_nowait((b"x",))


async def test_old_versions_are_refused(files: Files, dial: Dial) -> None:
    context = client_context()
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    server, client = await dial(files.tls(), context)
    with trio.fail_after(60):
        with pytest.raises(trio.BrokenResourceError):
            await client.do_handshake()
        await server.secured.wait()
    assert "unsupported protocol" in server.failures[0] or "version" in server.failures[0]
    server.transport.close()


# Certificates of clients


async def read_one(client: Client) -> bytes:
    """Go through the handshake, and on: with TLS 1.3 a client hears only then that it was turned away."""
    await client.do_handshake()
    return bytes(await client.receive_some())


def with_certificate(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = client_context()
    certificate.configure_cert(context)
    return context


async def test_clients_certificate_has_its_name(files: Files, dial: Dial) -> None:
    ada = AUTHORITY.issue_cert("ada.example.org", common_name="ada")
    server, client = await dial(files.tls(client_ca=files.authority), with_certificate(ada))
    with trio.fail_after(60):
        await client.send_all(b"x")
        await server.secured.wait()
    assert server.transport.client_name("common_name") == "ada"
    assert server.transport.client_name("subject_alternative_name") == "ada.example.org"
    server.transport.close()


async def test_without_a_certificate_there_is_no_name(files: Files, dial: Dial) -> None:
    server, client = await dial(files.tls(client_ca=files.authority))
    with trio.fail_after(60):
        await client.send_all(b"x")
        await server.secured.wait()
    assert server.transport.client_name("common_name") == ""
    assert server.transport.client_name("subject_alternative_name") == ""
    server.transport.close()


@pytest.mark.parametrize("stranger", [False, True])
async def test_required_certificate_is_required(files: Files, dial: Dial, stranger: bool) -> None:
    context = with_certificate(trustme.CA().issue_cert("ada", common_name="ada")) if stranger else client_context()
    tls = files.tls(client_ca=files.authority, require_client_certificate=True)
    server, client = await dial(tls, context)
    with trio.fail_after(60):
        with pytest.raises(trio.BrokenResourceError):
            await read_one(client)
        await server.secured.wait()
    assert len(server.failures) == 1
    assert "certif" in server.failures[0]
    server.transport.close()


# What cannot work


@pytest.mark.parametrize("missing", ["certificate", "key", "client_ca"])
def test_file_that_cannot_be_read_is_named(files: Files, tmp_path: Path, missing: str) -> None:
    paths = {"certificate": files.certificate, "key": files.key, "client_ca": files.authority}
    with pytest.raises(ConfigError, match=r"tls: cannot read .*/nowhere.pem: No such file"):
        make_context(TLS(**{**paths, missing: str(tmp_path / "nowhere.pem")}))


def test_file_that_is_no_certificate_is_refused(files: Files) -> None:
    with pytest.raises(ConfigError, match="it takes PEM, a key that is not encrypted"):
        make_context(TLS(files.key, files.certificate))
    with pytest.raises(ConfigError, match="it takes PEM"):
        make_context(TLS(files.certificate, files.key, client_ca=files.key))


def test_key_of_another_certificate_is_an_error(files: Files, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    AUTHORITY.issue_cert("localhost").private_key_pem.write_to_path(other)
    with pytest.raises(ConfigError, match="key values mismatch"):
        make_context(TLS(files.certificate, str(other)))


def test_encrypted_key_is_refused_without_asking_for_its_password(files: Files, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(SERVER.private_key_pem.bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    path = tmp_path / "encrypted.pem"
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret))
    with pytest.raises(ConfigError, match="encrypted key"):
        make_context(TLS(files.certificate, str(path)))


def test_required_certificates_need_an_authority(files: Files) -> None:
    with pytest.raises(ValueError, match="require_client_certificate needs client_ca"):
        files.tls(require_client_certificate=True)


def test_files_are_those_beside_the_configuration() -> None:
    assert TLS("c", "k", "a").beside(Path("/etc")) == TLS("/etc/c", "/etc/k", "/etc/a")
    assert TLS("c").beside(Path("/etc")) == TLS("/etc/c")
    assert TLS("/c").beside(Path("/etc")) == TLS("/c")
