"""The broker's side of its store's process: start it, restart it, exchange frames with it."""

from triomq.store.hosting.hosts import HostKind, StoreSettings
from triomq.store.hosting.supervisor import LEAST_WAIT, BackUpStore, StoreSupervisor, WaitCommitted

__all__ = ["LEAST_WAIT", "BackUpStore", "HostKind", "StoreSettings", "StoreSupervisor", "WaitCommitted"]
