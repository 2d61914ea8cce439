"""DMP, as a listener takes it in that has direct connections on its port."""

import trio

from triomq.core import Leases
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.direct import DirectLimits, DirectProtocol
from triomq.endpoints.dmp.connection import DMPServerConnection
from triomq.protocols.dmp import PROTOCOL_HEADER, DMPEngine, Settings
from triomq.transports import Transport


def _connect(
    transport: Transport, broker: BrokerContext, leases: Leases | None, limits: DirectLimits
) -> DMPServerConnection:
    largest = broker.unfinished.largest(limits.message_size)
    settings = Settings(max_message_size=largest, heartbeat=limits.heartbeat)
    engine = DMPEngine("server", now=trio.current_time(), settings=settings)
    return DMPServerConnection(transport, engine, broker, leases)


DMP = DirectProtocol(PROTOCOL_HEADER, _connect)
"""Direct connections that speak DMP (6/DMP)."""
