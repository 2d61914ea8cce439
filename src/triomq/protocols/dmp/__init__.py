"""6/DMP without input or output: the engine of one direct connection, for servers and clients."""

from triomq.protocols.dmp.codes import CODE_NAMES, LATE, response
from triomq.protocols.dmp.engine import PROTOCOL_HEADER, DMPEngine
from triomq.protocols.dmp.envelope import Envelope
from triomq.protocols.dmp.events import (
    EndOfStream,
    Event,
    Failed,
    LeasePresented,
    MessageRun,
    Ready,
    RefusalReceived,
    Silent,
)
from triomq.protocols.dmp.messages import NULL
from triomq.protocols.dmp.outbox import ContentForm
from triomq.protocols.dmp.settings import LARGEST_MESSAGE, Settings
from triomq.protocols.dmp.states import Target

__all__ = [
    # Numbers
    "CODE_NAMES",
    "LARGEST_MESSAGE",
    "LATE",
    "NULL",
    "PROTOCOL_HEADER",
    # The engine
    "ContentForm",
    "DMPEngine",
    # Events
    "EndOfStream",
    "Envelope",
    "Event",
    "Failed",
    "LeasePresented",
    "MessageRun",
    "Ready",
    "RefusalReceived",
    "Settings",
    "Silent",
    "Target",
    "response",
]
