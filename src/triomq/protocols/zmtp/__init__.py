"""ZMTP without input or output: what ZeroMQ speaks on a connection (RFC 23, 24, 26, 37), for both roles."""

from triomq.protocols.zmtp.client import ZMTPClientEngine
from triomq.protocols.zmtp.codes import FaultCode
from triomq.protocols.zmtp.curve import public_key_of, require_curve
from triomq.protocols.zmtp.engine import ZMTPEngine
from triomq.protocols.zmtp.events import (
    EndOfStream,
    ErrorReceived,
    Event,
    Failed,
    KeyShown,
    LoginRequested,
    MessagesReceived,
    Opened,
    TopicCancelled,
    TopicSubscribed,
)
from triomq.protocols.zmtp.frames import Frames
from triomq.protocols.zmtp.server import ZMTPServerEngine
from triomq.protocols.zmtp.settings import LONGEST_TOPIC, MOST_SUBSCRIPTIONS, Settings, SocketType
from triomq.protocols.zmtp.states import Mechanism
from triomq.protocols.zmtp.z85 import decode_key, encode_key

__all__ = [
    # Numbers
    "LONGEST_TOPIC",
    "MOST_SUBSCRIPTIONS",
    # Events
    "EndOfStream",
    "ErrorReceived",
    "Event",
    "Failed",
    "FaultCode",
    "Frames",
    "KeyShown",
    "LoginRequested",
    "Mechanism",
    "MessagesReceived",
    "Opened",
    "Settings",
    "SocketType",
    "TopicCancelled",
    "TopicSubscribed",
    # The engines
    "ZMTPClientEngine",
    "ZMTPEngine",
    "ZMTPServerEngine",
    # Keys
    "decode_key",
    "encode_key",
    "public_key_of",
    "require_curve",
]
