"""ZeroMQ's peers at ports of a broker: who may come, connections, a ROUTER and an XPUB of our own."""

from triomq.endpoints.zmtp.admission import MECHANISMS, Admission
from triomq.endpoints.zmtp.publish_listener import PublishListener
from triomq.endpoints.zmtp.router_listener import RouterListener

__all__ = ["MECHANISMS", "Admission", "PublishListener", "RouterListener"]
