"""A broker on its own: it runs until a signal stops it, in two steps, and reads its configuration again at SIGHUP."""

import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable

import trio

from triomq.app.broker import Broker
from triomq.app.config import Config
from triomq.app.logs import set_up_logging
from triomq.app.reload import change_to, set_up_domains, with_fixed_settings
from triomq.app.start import open_broker
from triomq.errors import ConfigError

_log = logging.getLogger("triomq.serve")

_COLLECT_AFTER = (10_000, 4, 1_250)
"""Thresholds of the garbage collector's generations, not Python's (700, 10, 10): the broker makes little garbage, and
many objects that stay. A collection over 40,000 objects takes some 12 ms, in which the loop stands still."""


def run(
    config: Config,
    *,
    started: Callable[[Broker], None] | None = None,
    reload: Callable[[], Config] | None = None,
) -> int:
    """Serve until a signal comes, with a log and an event loop of its own; arguments and errors are those of ``serve``.

    It returns the exit code for the process: ``raise SystemExit(run(load_config("triomq.toml")))``.
    """
    set_up_logging(config.log)
    return trio.run(lambda: serve(config, started=started, reload=reload))


async def serve(
    config: Config,
    *,
    started: Callable[[Broker], None] | None = None,
    reload: Callable[[], Config] | None = None,
) -> int:
    """Serve until a signal comes: the first SIGTERM or SIGINT drains, the second cuts everything.

    Args:
        config: What to listen for, for whom, and so on.
        started: Called once everything listens.
        reload: Called at SIGHUP for the configuration as it is then; without it SIGHUP changes nothing.

    Returns:
        The exit code for the process, 0 after a drain, 128 plus the signal's number when cut.

    Raises:
        ConfigError: An address cannot be used, or a password or definitions cannot be read.
        StoreError: The data directory cannot be used: another broker uses it, it cannot be written, the store in it is
            damaged, or a later version wrote it.
    """
    served = _Served(config, reload)
    error: Exception | None = None
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals, served.everything:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.watch, signals)
            try:
                await served.serve(started)
            except Exception as failure:
                error = failure  # raised below, without the nursery's group around it
            nursery.cancel_scope.cancel()
    if error is not None:
        raise error
    return served.exit_code


class _Served:
    """One broker on its own, from its start to its end."""

    def __init__(self, config: Config, reload: Callable[[], Config] | None) -> None:
        self.everything = trio.CancelScope()
        self.exit_code = 0
        self._config = config.completed()
        self._reload = reload
        self._drain = trio.Event()
        self._hang_up = trio.Event()

    async def serve(self, started: Callable[[Broker], None] | None) -> None:
        """Open the broker, and let it run until the drain."""
        config = self._config
        async with open_broker(
            users=config.all_users(),
            domains=config.domains,
            drain=config.drain,
            memory_high_watermark=config.memory_high_watermark,
            data_dir=config.data_dir or None,
            queue_memory=config.queue_memory,
            store_host=config.store_host,
            disk_reserve=config.disk_reserve,
            trace=config.trace if config.trace.directory else None,
        ) as broker:
            broker.watch_process_memory()
            broker.context.users.secret = config.users_secret() or broker.context.users.secret
            await set_up_domains(broker, Config(), config)
            for endpoint in config.endpoints:
                await broker.listen(endpoint)
            for peer in config.peers:
                await broker.synchronise(peer)
            _log_storage(broker, config)
            gc.collect()
            gc.freeze()  # what is here now stays, so no collection has to visit it
            gc.set_threshold(*_COLLECT_AFTER)
            if started is not None:
                started(broker)
            await self._configure_until_drained(broker)

    async def watch(self, signals: AsyncIterator[int]) -> None:
        """Turn SIGHUP into a reload, the first of the other signals into a drain, the second into a cancellation."""
        async for number in signals:
            if number == signal.SIGHUP:
                self._hang_up.set()
            elif not self._drain.is_set():
                _log.info("draining", extra={"fields": {"signal": signal.Signals(number).name}})
                self._drain.set()
            else:
                self.exit_code = 128 + number
                self.everything.cancel()
                return

    async def _configure_until_drained(self, broker: Broker) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._configure, broker)
            await self._drain.wait()
            nursery.cancel_scope.cancel()

    async def _configure(self, broker: Broker) -> None:
        """Configure anew at each SIGHUP; several that come at once are one."""
        while True:
            await self._hang_up.wait()
            self._hang_up = trio.Event()
            if self._reload is None:
                _log.warning("nothing to reload: the configuration came from no file")
                continue
            try:
                new = self._reload().completed()
                await change_to(broker, self._config, new)
                new = with_fixed_settings(self._config, new)
            except ConfigError as error:
                for trouble in str(error).splitlines():
                    _log.error("configuration is wrong", extra={"fields": {"trouble": trouble}})
                _log.error("configuration not reloaded, everything stays as it was")
            else:
                self._config = new
                _log.info("configuration reloaded")


def _log_storage(broker: Broker, config: Config) -> None:
    """Log whether anything outlives this process, and what an earlier one has left."""
    if not config.data_dir:
        _log.info("no data directory: everything is in memory only, and ends with this process")
        return
    queues = [queue for name in broker.domains for queue in broker.domain(name).directory.queues.values()]
    found = {
        "directory": config.data_dir,
        "queues": len(queues),
        "messages": sum(queue.statistics().ready for queue in queues),
    }
    _log.info("durable queues and messages are on disk", extra={"fields": found})
    for name in broker.recovered_domains:
        if name not in broker.domains:
            _log.warning("domain is on disk and not configured; it stays there", extra={"fields": {"domain": name}})
