"""Byte streams in and out: TCP, TLS, Unix sockets, WebSocket; whole messages in memory; no protocol."""

from triomq.transports.curve_keys import CurveKeys, make_curve_keys, read_curve_keys, read_curve_pair, write_curve_keys
from triomq.transports.memory import MemoryAddress, MemoryDealer, MemoryRouter
from triomq.transports.poller import Poller
from triomq.transports.stream import LARGE_RECEIVE_SIZE, RECEIVE_SIZE, Driver, RawSocket, StreamTransport, Transport
from triomq.transports.tcp import Address, accept_raw, address_of, bind_tcp, hosts_in, is_loopback, is_private, name_of
from triomq.transports.tls import TLS, TLSSocket, make_context
from triomq.transports.unix import bind_unix, close_listener
from triomq.transports.websocket_config import WebSocket

__all__ = [
    "LARGE_RECEIVE_SIZE",
    "RECEIVE_SIZE",
    "TLS",
    "Address",
    "CurveKeys",
    "Driver",
    "MemoryAddress",
    "MemoryDealer",
    "MemoryRouter",
    "Poller",
    "RawSocket",
    "StreamTransport",
    "TLSSocket",
    "Transport",
    "WebSocket",
    "accept_raw",
    "address_of",
    "bind_tcp",
    "bind_unix",
    "close_listener",
    "hosts_in",
    "is_loopback",
    "is_private",
    "make_context",
    "make_curve_keys",
    "name_of",
    "read_curve_keys",
    "read_curve_pair",
    "write_curve_keys",
]
