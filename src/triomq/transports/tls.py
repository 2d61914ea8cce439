"""TLS over a raw socket, in turns: no task for a connection, and no waiting in a turn.

    socket ──▶ RawSocket ── received ──▶ _incoming ─▶ OpenSSL ─▶ driver.received(plain data)
    socket ◀── RawSocket ◀─ send_nowait ─ _outgoing ◀─ OpenSSL ◀─ send_nowait(plain buffers)

OpenSSL works on two buffers in memory, so it never touches the socket, and a ``TLSSocket`` is both: the driver of its
``RawSocket``, and the transport of the connection. Sending is all or nothing for OpenSSL (the buffer has no limit);
what the kernel does not take is held by the raw socket, which calls ``drained`` as it does without TLS.

The handshake has no driver yet: it ends with ``secured``, or with ``failed`` and the alert that it has sent.
Renegotiation and compression are off, so after the handshake OpenSSL sends only what the driver writes, and alerts.

``trio.SSLStream`` is not used: it awaits the socket, so each connection would need tasks of its own again.
"""

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Literal, TypedDict, cast

import msgspec

from triomq.checked import Checked
from triomq.errors import ConfigError
from triomq.transports.stream import Buffer, Driver, RawSocket

_RECORD = 16 * 1024
"""Bytes in a record of TLS at most (RFC 8446 section 5.1), and so the result of one read."""

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers of TLS 1.2: forward secrecy and authenticated encryption (RFC 9325 section 4.2); TLS 1.3 has no others."""


class TLS(Checked, frozen=True, forbid_unknown_fields=True):
    """The TLS settings of an endpoint, for TLS 1.2 and 1.3.

    Args:
        certificate: File of the server's certificate and those that lead to its authority, in PEM.
        key: File of its private key, in PEM and not encrypted; none if it stands beside the certificate.
        client_ca: File of the authorities whose client certificates are trusted, in PEM; without it none is asked for.
        require_client_certificate: Refuse clients without a certificate.
        client_name: The field of a client's certificate that has the user's name, for the mechanism EXTERNAL.
    """

    certificate: str
    key: str = ""
    client_ca: str = ""
    require_client_certificate: bool = False
    client_name: Literal["common_name", "subject_alternative_name"] = "common_name"

    def __post_init__(self) -> None:
        """Check the fields, and that a required certificate has authorities to be checked against."""
        super().__post_init__()
        if self.require_client_certificate and not self.client_ca:
            raise ValueError("require_client_certificate needs client_ca, the file of the authorities that are trusted")

    def beside(self, folder: Path) -> "TLS":
        """Return the same with file names relative to a folder."""
        return msgspec.structs.replace(
            self,
            certificate=str(folder / self.certificate),
            key=str(folder / self.key) if self.key else "",
            client_ca=str(folder / self.client_ca) if self.client_ca else "",
        )


def make_context(tls: TLS) -> ssl.SSLContext:
    """Return a context with the certificates and the key.

    Raises:
        ConfigError: A file cannot be read, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    for path in filter(None, (tls.certificate, tls.key, tls.client_ca)):
        _check_readable(path)
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(tls.certificate, tls.key or None, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"tls: {_reason_of(error)} in {tls.certificate} {tls.key}".rstrip() + _PEM) from None
    if tls.client_ca:
        try:
            context.load_verify_locations(tls.client_ca)
        except ssl.SSLError as error:
            raise ConfigError(f"tls: {_reason_of(error)} in {tls.client_ca}{_PEM}") from None
        required = tls.require_client_certificate
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


_PEM = "; it takes PEM, a key that is not encrypted, and the certificate that belongs to the key"


def _check_readable(path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConfigError(f"tls: cannot read {path}: {error.strerror}; name a file that the broker may read") from None


def _no_password() -> str:
    raise ValueError("found an encrypted key")


def _reason_of(error: Exception) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
    return (reason or str(error)).lower().replace("_", " ")


class _Certificate(TypedDict, total=False):
    """The fields of a certificate that are used here, as Python parses it."""

    subject: tuple[tuple[tuple[str, str], ...], ...]
    subjectAltName: tuple[tuple[str, str], ...]


class TLSSocket:
    """A raw socket with TLS on it, as a server; a ``Transport`` once ``secured`` was called.

    Args:
        raw: The socket; owned from now on, and read at once.
        context: Certificates and so on.
        secured: Called once, when the handshake is done; it calls ``start``, or ``close``.
        failed: Called instead when it has failed, with the reason, empty if the client has gone; it calls ``close``,
            now or a little later.
    """

    is_encrypted: ClassVar = True

    def __init__(
        self,
        raw: RawSocket,
        context: ssl.SSLContext,
        *,
        secured: "Callable[[TLSSocket], object]",
        failed: "Callable[[TLSSocket, str], object]",
    ) -> None:
        self._raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._secured = secured
        self._failed = failed
        self._driver: Driver | None = None
        self._shaking_hands = True
        self._at_end = False
        self._ending = False
        self.peer = raw.peer
        raw.start(self)

    @property
    def receive_size(self) -> int:
        """Bytes to read at once."""
        return self._raw.receive_size

    @receive_size.setter
    def receive_size(self, size: int) -> None:
        self._raw.receive_size = size

    @property
    def progress(self) -> int:
        """Grows whenever some of what could not be sent at once has left."""
        return self._raw.progress

    @progress.setter
    def progress(self, count: int) -> None:
        self._raw.progress = count

    @property
    def bottom(self) -> RawSocket:
        """The raw socket."""
        return self._raw

    def client_name(self, kind: str) -> str:
        """Return the name in the client's certificate, which an authority has signed; empty if there is none.

        Args:
            kind: ``"common_name"`` or ``"subject_alternative_name"``.
        """
        certificate = cast("_Certificate", self._tls.getpeercert() or {})
        if kind == "common_name":
            pairs = [pair for part in certificate.get("subject", ()) for pair in part if pair[0] == "commonName"]
        else:
            pairs = [pair for pair in certificate.get("subjectAltName", ()) if pair[0] in ("DNS", "email", "URI")]
        return pairs[0][1] if pairs else ""

    # Called by the raw socket

    def received(self, data: bytes) -> None:
        """Process encrypted data."""
        if self._at_end:
            return
        if not data:
            self._end()
            return
        if self._ending:
            return  # the driver has ended the stream; only the other side's end counts
        self._incoming.write(data)
        if self._shaking_hands:
            self._shake_hands()
        if not self._shaking_hands:
            self._read()

    def drained(self) -> None:
        """Tell the driver that all bytes have left."""
        if self._driver is not None:
            self._driver.drained()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._at_end = True
            self._flush()  # the alert that says why
            self._raw.end_sending()
            self._failed(self, _reason_of(error))
            return
        self._shaking_hands = False
        self._flush()
        self._secured(self)

    def _read(self) -> None:
        """Pass on what has been decrypted, in one piece."""
        found: list[bytes] = []
        ended = False
        try:
            while chunk := self._tls.read(_RECORD):
                found.append(chunk)
            ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            ended = True  # the client's close_notify, or data that is no TLS
        self._flush()
        if found and self._driver is not None:
            self._driver.received(b"".join(found) if len(found) > 1 else found[0])
        if ended:
            self._end()

    def _end(self) -> None:
        """Pass on the end of the stream, once."""
        if self._at_end:
            return
        self._at_end = True
        if self._shaking_hands:
            self._failed(self, "")
        elif self._driver is not None:
            self._driver.received(b"")

    def _flush(self) -> bool:
        data = self._outgoing.read()
        return self._raw.send_nowait((data,)) if data else True

    # Called by the driver

    def start(self, driver: Driver) -> None:
        """Pass data on to a driver from now on."""
        self._driver = driver

    def send_nowait(self, buffers: Sequence[Buffer]) -> bool:
        """Encrypt buffers and send them; the socket holds what the kernel does not take."""
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        if not data:
            return self._raw.send_nowait((b"",))
        try:
            self._tls.write(data)
        except ssl.SSLError:
            return True  # the other side is gone; the next read finds out why
        return self._raw.send_nowait((self._outgoing.read(),))

    def notify_drained(self) -> None:
        """Call ``drained`` as soon as the socket would take more."""
        self._raw.notify_drained()

    def pause_reading(self) -> None:
        """Leave what comes in the kernel's buffers."""
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._raw.resume_reading()

    def end_sending(self) -> None:
        """Send close_notify (RFC 8446 section 6.1), and half-close once everything has left."""
        self._ending = True
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # it would wait for the client's close_notify, which the driver does not
        self._flush()
        self._raw.end_sending()

    def lend(self) -> int | None:
        """Return None: nobody else can encrypt what is sent here."""
        return None

    def close(self) -> None:
        """Close the socket."""
        self._driver = None
        self._at_end = True
        self._raw.close()
