"""From a URL to what the engine of a client is told."""

from collections.abc import Mapping

from triomq.clients.url import AMQPUrl
from triomq.protocols import FieldValue
from triomq.protocols.amqp import LOST_CAPABILITY, Login, Settings, plain

HEARTBEAT = 60
"""Seconds, where the URL says nothing: what RabbitMQ offers."""

MESSAGE_MOST = 512 * 1024 * 1024
"""Octets of a body; no RabbitMQ sends more."""


def settings_for(url: AMQPUrl, properties: Mapping[str, FieldValue] | None = None) -> Settings:
    """Say to the engine what a URL wishes for, and what else we say of ourselves."""
    said: dict[str, FieldValue] = {**Settings().client_properties, **(properties or {})}
    capabilities = said["capabilities"]
    assert isinstance(capabilities, dict)
    said["capabilities"] = {**capabilities, LOST_CAPABILITY: True}
    if url.name:
        said["connection_name"] = url.name
    external = url.auth_mechanism == "external"
    return Settings(
        heartbeat=HEARTBEAT if url.heartbeat is None else url.heartbeat,
        frame_max=url.frame_max,
        channel_max=url.channel_max,
        max_message_size=MESSAGE_MOST,
        handshake_timeout=2 * url.timeout,  # our own deadline comes first and says more
        client_properties=said,
        login=Login("EXTERNAL", b"") if external else plain(url.user, url.password),
        virtual_host=url.virtual_host,
    )
