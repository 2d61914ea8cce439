"""Changing the configuration of a running broker; each change is logged, and what needs a restart as well."""

import logging
import ssl
from collections.abc import Sequence

import msgspec

from triomq.app.broker import Broker
from triomq.app.config import Config
from triomq.app.definitions import declare_definitions
from triomq.app.listening import Listening
from triomq.app.logs import set_up_logging
from triomq.app.policies import policies_in
from triomq.app.users import User, records_of
from triomq.core import DomainLimits
from triomq.endpoints import EndpointConfig, RenewCertificates
from triomq.errors import ConfigError
from triomq.transports import make_context

_log = logging.getLogger("triomq.serve")

_STAYS = ("data_dir", "queue_memory", "store_host", "disk_reserve", "trace")
"""Settings of the store and of the trace log, which are opened once."""

_Certificates = Sequence[tuple[EndpointConfig, ssl.SSLContext]]


async def change_to(broker: Broker, old: Config, new: Config) -> None:
    """Change a broker to a new configuration.

    Domains come first and endpoints last, so that no client connects before its domain and its user are there.

    Args:
        broker: The broker.
        old: The present configuration.
        new: The next one, which ``load_config`` has checked.

    Raises:
        ConfigError: A password's file cannot be read any more; nothing was changed.
    """
    users, secret = new.all_users(), new.users_secret()
    # Now, so that nothing is changed if one of them cannot be read.
    records_of(users or {})
    certificates = [(config, make_context(config.tls)) for config in new.endpoints if config.tls is not None]
    _change_settings(broker, old, new)
    await _change_domains(broker, new)
    await set_up_domains(broker, old, new)
    wanted = list(new.endpoints)
    for listening in broker.listening[:]:
        if listening.config in wanted:
            wanted.remove(listening.config)
            _renew(broker, listening, certificates)
        else:
            await _close(listening)
    broker.context.users.secret = secret or broker.context.users.secret
    _change_users(broker, users)
    for config in wanted:
        await _open(broker, config)
    await _change_peers(broker, new)


def _change_settings(broker: Broker, old: Config, new: Config) -> None:
    if new.log != old.log:
        set_up_logging(new.log)
        _log_change("log changed", level=new.log.level, format=new.log.format)
    if new.drain != old.drain:
        broker.drain_seconds = new.drain
        _log_change("drain changed", seconds=new.drain)
    if new.memory_high_watermark != old.memory_high_watermark:
        broker.set_memory_high_watermark(new.memory_high_watermark)
        _log_change("memory_high_watermark changed", watermark=new.memory_high_watermark)


def with_fixed_settings(old: Config, new: Config) -> Config:
    """Return a new configuration with the old values of settings that need a restart; log those that differ.

    Args:
        old: The present configuration.
        new: The next one.
    """
    stays = {name: getattr(old, name) for name in _STAYS}
    for name, value in stays.items():
        if getattr(new, name) != value:
            _log.warning("setting stays until a restart", extra={"fields": {"setting": name, "value": value or "none"}})
    return msgspec.structs.replace(new, **stays)


async def set_up_domains(broker: Broker, old: Config, new: Config) -> None:
    """Set the policies of a configuration in all domains, and declare what its definitions name.

    Policies that did not come from the old configuration stay.

    Raises:
        ConfigError: The definitions cannot be read any more; nothing was changed.
    """
    definitions = new.read_definitions() if new.definitions else None
    for name in broker.domains:
        domain = broker.domain(name)
        domain.directory.default_queue_type = new.default_queue_types.get(name, "")
        domain.directory.most = new.domain_limits.get(name, DomainLimits())
        before = {(policy.name, policy.operator) for policy in policies_in(name, old.policies)}
        others = [policy for policy in domain.policies if (policy.name, policy.operator) not in before]
        wanted = policies_in(name, new.policies)
        if (*others, *wanted) != domain.policies:
            changed = await domain.set_policies((*others, *wanted))
            _log_change("policies changed", domain=name, policies=len(others) + len(wanted), affected=changed)
    if definitions is not None:
        found, added = definitions
        await declare_definitions(broker, found, added)


async def _change_domains(broker: Broker, new: Config) -> None:
    for name in new.domains:
        if name not in broker.domains:
            await broker.add_domain(name)
            _log_change("domain added", domain=name)
    for name in broker.domains:
        if name not in new.domains:
            _log.warning("domain stays until a restart", extra={"fields": {"domain": name}})


async def _change_peers(broker: Broker, new: Config) -> None:
    wanted = list(new.peers)
    for peer in broker.peers[:]:
        if peer.config in wanted:
            wanted.remove(peer.config)
        else:
            await peer.aclose()
            _log_change("peer removed", peer=peer.name)
    for config in wanted:
        peer = await broker.synchronise(config)
        _log_change("peer added", peer=peer.name)


def _change_users(broker: Broker, users: dict[str, User] | None) -> None:
    changes = broker.set_users(users)
    for name in changes.added:
        _log_change("user added", user=name)
    for name in changes.changed:
        _log_change("password changed", user=name)
    for name in changes.removed:
        _log_change("user removed", user=name)
    for name in changes.regulated:
        _log_change("user changed", user=name)


def _renew(broker: Broker, listening: Listening, certificates: _Certificates) -> None:
    """Read the certificates of an endpoint with TLS again."""
    ref = broker.endpoint_refs.get(listening.name)
    for config, context in certificates:
        if config == listening.config and ref is not None:
            ref.tell_nowait(RenewCertificates(context))
            _log_change("certificates read again", endpoint=listening.name)


async def _close(listening: Listening) -> None:
    """Close an endpoint that is not configured any more; one that has changed is opened anew later."""
    await listening.aclose()
    _log_change("endpoint closed", endpoint=listening.name)


async def _open(broker: Broker, config: EndpointConfig) -> None:
    try:
        await broker.listen(config)  # which logs it
    except ConfigError as error:
        _log.error("endpoint not opened", extra={"fields": {"endpoint": config.name, "trouble": error}})


def _log_change(event: str, **fields: object) -> None:
    _log.info(event, extra={"fields": fields})
