"""How a broker in this process starts and ends: ``async with open_broker(AMQP()) as broker: …``."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from triomq.actors import open_system, require_trio
from triomq.app.broker import Broker
from triomq.app.checks import check_number, check_text, check_whole
from triomq.app.listening import check_endpoint
from triomq.app.machine import DEFAULT_WATERMARK, memory_mark
from triomq.app.tree import Root, Tree
from triomq.app.users import User
from triomq.core import QUEUE_MEMORY
from triomq.endpoints import EndpointConfig, Synchronise
from triomq.opening import opening
from triomq.process import require_python
from triomq.store import DISK_RESERVE
from triomq.store.hosting import HostKind, StoreSettings
from triomq.tracelog import Trace, require_pyarrow


@opening("async with open_broker() as broker:")
async def open_broker(
    *endpoints: EndpointConfig,
    users: Mapping[str, str | User] | None = None,
    domains: Sequence[str] = ("default",),
    peers: Sequence[Synchronise] = (),
    drain: float = 3.0,
    memory_high_watermark: float = DEFAULT_WATERMARK,
    data_dir: Path | str | None = None,
    queue_memory: int = QUEUE_MEMORY,
    store_host: HostKind = "process",
    disk_reserve: int = DISK_RESERVE,
    trace: Trace | None = None,
) -> AsyncIterator[Broker]:
    """Open a broker, which ends with the block.

    With a data directory, what is durable outlives it: sinks, queues, bindings, and persistent messages. Without one
    everything is in memory, and gone when the block is left.

    Leaving the block drains the broker: endpoints accept nothing new, connections are closed in order, queues finish
    their work. An error of the broker itself that supervision could not absorb comes out of the block, bare; so does
    the block's own. An actor of the program's own, started with ``broker.system.start``, that fails too often is
    stopped alone.

    Args:
        endpoints: What to listen for, such as ``AMQP(port=0)``; more can follow with ``Broker.listen``.
        users: Who may log in: name to ``User``, or to the password of one who may do everything; without it
            guest/guest, on loopback addresses alone.
        domains: The namespaces of sinks and queues; no binding leads from one to another. The broker is the handle of
            the first.
        peers: Brokers to which a domain is announced; more can follow with ``Broker.synchronise``.
        drain: Seconds that clients have to finish before their connections are cut.
        memory_high_watermark: What queues may hold before publishers have to wait or are refused: bytes if it is
            above 1, a part of the machine's memory if it is not, 0 for no such mark. Unfinished messages may take an
            eighth of it.
        data_dir: The directory of the store, created if it is not there; no other broker may use it.
        queue_memory: Bytes of messages that each queue has in memory if there is a store; the others are on disk.
        store_host: Where the store's work is done: in a ``process`` of its own; or, where no child process may be
            started, on a ``thread``, which is much slower while the broker is busy.
        disk_reserve: Bytes, beside the size of the store's log, that are to be free on its disk: below it publishers
            are refused as on a full disk, until there is twice as much; 0 for no such reserve.
        trace: What is traced, and where; None for nothing.

    Raises:
        ConfigError: An address cannot be used, the configuration of a peer is wrong, what the trace log needs is not
            installed, or no interpreter is known for the process of a store or a trace log.
        StoreError: The store cannot be opened: another broker has it, a newer version wrote it, it is damaged.
        NotAllWritten: At the end of the block: not everything could be written to disk, since that is full or gone.
        StoreLost: There was a store, and it was lost; or, at the end of the block, it is lost by now.
        RuntimeError: This does not run in Trio.
        TypeError, ValueError: An argument is not of its type, or out of its range.
    """
    require_trio(
        "open_broker",
        asyncio_way="use `async with open_asyncio_broker() as broker:`, which takes the same arguments",
        otherwise="call it in trio.run(main), or use `with open_blocking_broker() as broker:`",
    )
    for config in endpoints:
        check_endpoint(config)
    _check_domains(domains)
    check_number("drain", drain, 0)
    check_number("memory_high_watermark", memory_high_watermark, 0)
    check_whole("queue_memory", queue_memory, 1)
    store = _store_settings(data_dir, store_host, disk_reserve)
    if trace is not None:
        require_pyarrow()
    if trace is not None or (store is not None and store.host == "process"):
        require_python()
    broker: Broker | None = None
    tree = Tree(store, queue_memory, trace, drain)
    try:
        async with open_system(supervisor=Root()) as system:
            tree.memory.mark = memory_mark(memory_high_watermark)
            await tree.start(system)
            await tree.start_domain(domains[0])
            broker = Broker(system, tree, domains[0], users=users, drain=drain)
            await _start_configured(broker, domains[1:], endpoints, peers)
            yield broker
            await broker.drain()
    except BaseException:
        tree.find_unwritten()  # which the log has then; what was raised is the cause
        raise
    else:
        if (unwritten := tree.find_unwritten()) is not None:
            raise unwritten
    finally:
        if broker is not None:
            broker.close()


async def _start_configured(
    broker: Broker, domains: Sequence[str], endpoints: Sequence[EndpointConfig], peers: Sequence[Synchronise]
) -> None:
    for name in domains:
        await broker.add_domain(name)
    for config in endpoints:
        await broker.listen(config)
    for peer in peers:
        await broker.synchronise(peer)


def _store_settings(data_dir: Path | str | None, host: HostKind, reserve: int) -> StoreSettings | None:
    """Return how to open the store; None without a data directory.

    Raises:
        TypeError, ValueError: There is no such host, or the reserve is no number of bytes.
    """
    check_whole("disk_reserve", reserve, 0)
    if host not in get_args(HostKind):
        raise ValueError(f"store_host is {host!r}, allowed are {', '.join(map(repr, get_args(HostKind)))}")
    return None if data_dir is None else StoreSettings(Path(data_dir), host, reserve=reserve)


def _check_domains(domains: Sequence[str]) -> None:
    """Refuse what is no list of names.

    Raises:
        TypeError: It is something else, such as one name alone, whose letters would be domains.
        ValueError: There is no name in it.
    """
    if isinstance(domains, str):
        raise TypeError(f"domains is the text {domains!r}; it is a list of names, such as [{domains!r}]")
    for name in domains:
        check_text("the name of a domain", name)
    if not domains:
        raise ValueError("domains is empty; a broker needs at least one, such as 'default'")
