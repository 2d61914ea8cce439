"""A program with a store, for a test that kills it; prints the number of the store's process when all is on disk."""

import sys
from pathlib import Path

import trio

from triomq.actors import open_system
from triomq.store import Journal, QueueDeclared
from triomq.store.hosting import StoreSettings, StoreSupervisor, WaitCommitted


async def main() -> None:
    journal = Journal()
    async with open_system() as system:
        ref = await system.start(lambda: StoreSupervisor(journal, StoreSettings(Path(sys.argv[1]))), name="store")
        journal.add(QueueDeclared(1, b"q", b""))
        journal.append(1, 1, b"head", [b"a"], 1)
        await ref.ask(WaitCommitted())
        assert isinstance(ref.actor, StoreSupervisor)
        print(ref.actor.pid, flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)
