"""ZeroMQ sockets under Trio, without a thread of ours; loads pyzmq, so that only users of it import this."""

from triomq.transports.zmq.authenticator import Authenticator, Mechanism, Question
from triomq.transports.zmq.router import Received, Router, Sent
from triomq.transports.zmq.socket import BATCH, Frames, ZMQSocket, close_context, make_context

__all__ = [
    "BATCH",
    "Authenticator",
    "Frames",
    "Mechanism",
    "Question",
    "Received",
    "Router",
    "Sent",
    "ZMQSocket",
    "close_context",
    "make_context",
]
