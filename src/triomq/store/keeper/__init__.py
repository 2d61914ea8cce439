"""The actor that runs a store: in a process of its own, or on a thread."""

from triomq.store.keeper.hosts import HostKind
from triomq.store.keeper.supervisor import BackUpStore, StoreSettings, StoreSupervisor, WaitCommitted

__all__ = ["BackUpStore", "HostKind", "StoreSettings", "StoreSupervisor", "WaitCommitted"]
