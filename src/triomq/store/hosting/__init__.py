"""The actor that runs a store: in a process of its own, or on a thread."""

from triomq.store.hosting.hosts import HostKind
from triomq.store.hosting.supervisor import BackUpStore, StoreSettings, StoreSupervisor, WaitCommitted

__all__ = ["BackUpStore", "HostKind", "StoreSettings", "StoreSupervisor", "WaitCommitted"]
