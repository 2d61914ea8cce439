"""Octets and frames in and out; no protocol."""

from triomq.transports.stream import RECEIVE_SIZE, RawSocket, StreamTransport, Transport
from triomq.transports.tcp import accept_raw, address_of, bind_tcp

__all__ = [
    "RECEIVE_SIZE",
    "RawSocket",
    "StreamTransport",
    "Transport",
    "accept_raw",
    "address_of",
    "bind_tcp",
]
