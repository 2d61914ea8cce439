"""From one configuration to the next while the broker runs, saying line by line what changes and what cannot."""

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
from triomq.endpoints import EndpointConfig, RenewCertificates
from triomq.errors import ConfigError
from triomq.transports import make_context

_log = logging.getLogger("triomq.serve")

_STAYS = ("data_dir", "queue_memory", "store_host", "disk_reserve")
"""What the store was opened with."""

_Certificates = Sequence[tuple[EndpointConfig, ssl.SSLContext]]


async def change_to(broker: Broker, old: Config, new: Config) -> None:
    """Do what a new configuration asks for.

    Domains come first and endpoints last, so that nobody is let in who finds no domain, or whom nobody knows yet.

    Args:
        broker: The broker.
        old: How it is configured now.
        new: How it is to be; ``load_config`` has checked it.

    Raises:
        ConfigError: A password's file cannot be read any more; nothing was changed.
    """
    users, secret = new.all_users(), new.users_secret()
    # So that nothing is changed if one of them cannot be read.
    records_of(users or {})
    certificates = [(config, make_context(config.tls)) for config in new.endpoints if config.tls is not None]
    if new.log != old.log:
        set_up_logging(new.log)
        _say("log changed", level=new.log.level, format=new.log.format)
    if new.drain != old.drain:
        broker.drain_seconds = new.drain
        _say("drain changed", seconds=new.drain)
    if new.memory_high_watermark != old.memory_high_watermark:
        broker.set_memory_high_watermark(new.memory_high_watermark)
        _say("memory_high_watermark changed", watermark=new.memory_high_watermark)
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


def keep_what_stays(old: Config, new: Config) -> Config:
    """Give a new configuration with what cannot change while the broker runs as it was, and say so.

    Args:
        old: How the broker is configured now.
        new: How it is to be, all else done.
    """
    stays = {name: getattr(old, name) for name in _STAYS}
    for name, value in stays.items():
        if getattr(new, name) != value:
            _log.warning("setting stays until a restart", extra={"fields": {"setting": name, "value": value or "none"}})
    return msgspec.structs.replace(new, **stays)


async def set_up_domains(broker: Broker, old: Config, new: Config) -> None:
    """Let the policies be those of a configuration, and declare what its definitions name.

    Policies that did not come from the former configuration stay.

    Raises:
        ConfigError: The definitions cannot be read any more; nothing was changed.
    """
    definitions = new.read_definitions() if new.definitions else None
    for name in broker.domains:
        domain = broker.domain(name)
        before = {policy.name for policy in policies_in(name, old.policies)}
        others = [policy for policy in domain.policies if policy.name not in before]
        wanted = policies_in(name, new.policies)
        if (*others, *wanted) != domain.policies:
            changed = await domain.set_policies((*others, *wanted))
            _say("policies changed", domain=name, policies=len(others) + len(wanted), affected=changed)
    if definitions is not None:
        found, added = definitions
        await declare_definitions(broker, found, added.domains)


async def _change_domains(broker: Broker, new: Config) -> None:
    for name in new.domains:
        if name not in broker.domains:
            await broker.add_domain(name)
            _say("domain added", domain=name)
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
            _say("peer removed", peer=peer.name)
    for config in wanted:
        peer = await broker.synchronise(config)
        _say("peer added", peer=peer.name)


def _change_users(broker: Broker, users: dict[str, User] | None) -> None:
    changes = broker.set_users(users)
    for name in changes.added:
        _say("user added", user=name)
    for name in changes.changed:
        _say("password changed", user=name)
    for name in changes.removed:
        _say("user removed", user=name)
    for name in changes.regulated:
        _say("user changed", user=name)


def _renew(broker: Broker, listening: Listening, certificates: _Certificates) -> None:
    """Let an endpoint with TLS show what stands in its files now."""
    ref = broker.endpoint_refs.get(listening.name)
    for config, context in certificates:
        if config == listening.config and ref is not None:
            ref.tell_nowait(RenewCertificates(context))
            _say("certificates read again", endpoint=listening.name)


async def _close(listening: Listening) -> None:
    """Close an endpoint that is not wanted as it is; one that is wanted otherwise is opened anew."""
    await listening.aclose()
    _say("endpoint closed", endpoint=listening.name)


async def _open(broker: Broker, config: EndpointConfig) -> None:
    try:
        await broker.listen(config)  # says so itself
    except ConfigError as error:
        _log.error("endpoint not opened", extra={"fields": {"endpoint": config.name, "trouble": error}})


def _say(event: str, **fields: object) -> None:
    _log.info(event, extra={"fields": fields})
