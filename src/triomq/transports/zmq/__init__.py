"""ZeroMQ sockets under Trio, without a thread of ours; loads pyzmq, so that only users of it import this."""

from triomq.transports.zmq.dealer import Dealer
from triomq.transports.zmq.reading import MessageForm, Received
from triomq.transports.zmq.router import HIGH_WATER, Router, Sent
from triomq.transports.zmq.socket import BATCH, Frames, ZMQContext, ZMQSocket, close_context, make_context

__all__ = [
    "BATCH",
    "HIGH_WATER",
    "Dealer",
    "Frames",
    "MessageForm",
    "Received",
    "Router",
    "Sent",
    "ZMQContext",
    "ZMQSocket",
    "close_context",
    "make_context",
]
