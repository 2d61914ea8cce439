"""A Trio-based embeddable actor framework that is also a message broker.

Names are resolved on first use, so that a program loads only what it uses.
"""

from typing import TYPE_CHECKING

from triomq.lazy import lazy_names
from triomq.version import __version__

if TYPE_CHECKING:
    from triomq.app import AMQP as AMQP
    from triomq.app import EMQP as EMQP
    from triomq.app import MTL as MTL
    from triomq.app import TLS as TLS
    from triomq.app import AppliesTo as AppliesTo
    from triomq.app import Broker as Broker
    from triomq.app import Comparison as Comparison
    from triomq.app import Condition as Condition
    from triomq.app import Config as Config
    from triomq.app import Delivery as Delivery
    from triomq.app import DomainHandle as DomainHandle
    from triomq.app import LocalFeed as LocalFeed
    from triomq.app import Log as Log
    from triomq.app import MicroMsg as MicroMsg
    from triomq.app import Peer as Peer
    from triomq.app import Permission as Permission
    from triomq.app import Policy as Policy
    from triomq.app import PolicyConfig as PolicyConfig
    from triomq.app import PolicyOptions as PolicyOptions
    from triomq.app import Properties as Properties
    from triomq.app import QueueHandle as QueueHandle
    from triomq.app import Record as Record
    from triomq.app import RestMS as RestMS
    from triomq.app import SinkHandle as SinkHandle
    from triomq.app import StreamHandle as StreamHandle
    from triomq.app import StreamReader as StreamReader
    from triomq.app import Synchronise as Synchronise
    from triomq.app import Tap as Tap
    from triomq.app import Trace as Trace
    from triomq.app import User as User
    from triomq.app import UserLimits as UserLimits
    from triomq.app import WebSocket as WebSocket
    from triomq.app import load_config as load_config
    from triomq.app import make_predicate as make_predicate
    from triomq.app import open_broker as open_broker
    from triomq.app import run as run
    from triomq.app.portal import AsyncioBroker as AsyncioBroker
    from triomq.app.portal import BlockingBroker as BlockingBroker
    from triomq.app.portal import open_asyncio_broker as open_asyncio_broker
    from triomq.app.portal import open_blocking_broker as open_blocking_broker
    from triomq.app.portal import open_portal as open_portal
    from triomq.jobs import Job as Job
    from triomq.jobs import Jobs as Jobs
    from triomq.jobs import current_job as current_job
    from triomq.process import freeze_support as freeze_support
    from triomq.process import set_executable as set_executable

# The module of each public name; __all__ below lists the same names for tools that read and do not run.
_MODULES = {
    "AMQP": "triomq.app",
    "AppliesTo": "triomq.app",
    "AsyncioBroker": "triomq.app.portal",
    "BlockingBroker": "triomq.app.portal",
    "Broker": "triomq.app",
    "Comparison": "triomq.app",
    "Condition": "triomq.app",
    "Config": "triomq.app",
    "Delivery": "triomq.app",
    "DomainHandle": "triomq.app",
    "EMQP": "triomq.app",
    "MTL": "triomq.app",
    "Job": "triomq.jobs",
    "Jobs": "triomq.jobs",
    "LocalFeed": "triomq.app",
    "Log": "triomq.app",
    "MicroMsg": "triomq.app",
    "Peer": "triomq.app",
    "Permission": "triomq.app",
    "Policy": "triomq.app",
    "PolicyConfig": "triomq.app",
    "PolicyOptions": "triomq.app",
    "Properties": "triomq.app",
    "QueueHandle": "triomq.app",
    "Record": "triomq.app",
    "RestMS": "triomq.app",
    "StreamHandle": "triomq.app",
    "StreamReader": "triomq.app",
    "SinkHandle": "triomq.app",
    "Synchronise": "triomq.app",
    "TLS": "triomq.app",
    "Tap": "triomq.app",
    "Trace": "triomq.app",
    "User": "triomq.app",
    "UserLimits": "triomq.app",
    "WebSocket": "triomq.app",
    "current_job": "triomq.jobs",
    "freeze_support": "triomq.process",
    "load_config": "triomq.app",
    "make_predicate": "triomq.app",
    "open_asyncio_broker": "triomq.app.portal",
    "open_blocking_broker": "triomq.app.portal",
    "open_broker": "triomq.app",
    "open_portal": "triomq.app.portal",
    "run": "triomq.app",
    "set_executable": "triomq.process",
}

__all__ = [
    "AMQP",
    "EMQP",
    "MTL",
    "TLS",
    "AppliesTo",
    "AsyncioBroker",
    "BlockingBroker",
    "Broker",
    "Comparison",
    "Condition",
    "Config",
    "Delivery",
    "DomainHandle",
    "Job",
    "Jobs",
    "LocalFeed",
    "Log",
    "MicroMsg",
    "Peer",
    "Permission",
    "Policy",
    "PolicyConfig",
    "PolicyOptions",
    "Properties",
    "QueueHandle",
    "Record",
    "RestMS",
    "SinkHandle",
    "StreamHandle",
    "StreamReader",
    "Synchronise",
    "Tap",
    "Trace",
    "User",
    "UserLimits",
    "WebSocket",
    "__version__",
    "current_job",
    "freeze_support",
    "load_config",
    "make_predicate",
    "open_asyncio_broker",
    "open_blocking_broker",
    "open_broker",
    "open_portal",
    "run",
    "set_executable",
]

__getattr__ = lazy_names(__name__, _MODULES, __all__)


def __dir__() -> list[str]:
    """List the public names, resolved or not."""
    return sorted(__all__)
