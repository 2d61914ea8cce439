"""Octets and frames in and out; no protocol."""

from triomq.transports.poller import Poller
from triomq.transports.stream import LARGE_RECEIVE_SIZE, RECEIVE_SIZE, Driver, RawSocket, StreamTransport, Transport
from triomq.transports.tcp import accept_raw, address_of, bind_tcp

__all__ = [
    "LARGE_RECEIVE_SIZE",
    "RECEIVE_SIZE",
    "Driver",
    "Poller",
    "RawSocket",
    "StreamTransport",
    "Transport",
    "accept_raw",
    "address_of",
    "bind_tcp",
]
