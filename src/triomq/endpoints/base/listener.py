"""How clients come to an endpoint: a strategy, of which an endpoint may have several."""

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from triomq.transports import Address

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint


class Listener(Protocol):
    """Where clients come in: sockets that accept, one ROUTER socket, a server for HTTP.

    Made with its endpoint, and used up by one incarnation of it. A party that comes is no client before it has a
    ``Client``, which the listener makes and hands to ``Endpoint.serve``; until then its deadlines are the listener's,
    which may set timers in ``endpoint.timers``. Derive from this class to have what is not abstract.
    """

    @property
    def others(self) -> Mapping[str, Address]:
        """Where it listens for something else than the endpoint's clients, by what that is."""
        return {}

    @property
    def addresses(self) -> list[Address]:
        """Where it listens; empty before it has started."""
        ...

    async def start(self, endpoint: "Endpoint") -> None:
        """Bind, and listen from now on, in tasks of the endpoint's (``start_task``).

        Raises:
            ConfigError: It cannot listen there.
        """
        ...

    def stop_accepting(self) -> None:
        """Accept no client any more; those that are there stay. Called in a turn, perhaps more than once."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way that a drain is to wait for, beside clients; see ``Endpoint.check_empty``."""
        return True

    async def wait_sent(self) -> None:
        """Wait until the last words to clients are on their way; called when the last client has gone in order."""
        return

    def renew_certificates(self, context: ssl.SSLContext) -> None:
        """Show other certificates from now on, where it speaks TLS."""
        return

    def close(self) -> None:
        """Close everything at once; the last call, also after a crash of the endpoint, or when it could not start."""
        ...
