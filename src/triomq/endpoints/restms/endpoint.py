"""The RestMS endpoint: listens, and makes a connection for each stream; what it shows is in ``RestMSResources``."""

import logging
from collections.abc import Sequence
from typing import Final

import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import Endpoint
from triomq.endpoints.base.stream_listener import StreamListener
from triomq.endpoints.feeds import AbandonedPipes
from triomq.endpoints.restms.calls import Refusal
from triomq.endpoints.restms.client import LOOKS, client_of
from triomq.endpoints.restms.config import RestMS
from triomq.endpoints.restms.connection import RestMSServerConnection
from triomq.endpoints.restms.pipes import ServedPipe
from triomq.endpoints.restms.rates import RequestRates
from triomq.endpoints.restms.resources import restms_resources
from triomq.endpoints.restms.staged import StagedContent
from triomq.errors import ActorError, Refused
from triomq.protocols import restms
from triomq.transports import Transport, name_of

_LOOK: Final = 60.0
"""Seconds between two looks for pipes whose users are gone."""

_log = logging.getLogger("triomq.endpoints")


class RestMSEndpoint(Endpoint):
    """The actor that listens for RestMS.

    Args:
        config: Where and how.
        context: What the broker lends.
    """

    def __init__(self, config: RestMS, context: BrokerContext) -> None:
        self.listener = StreamListener(
            self.make_client, config.host, config.port or 0, path=config.path, tls=config.tls, probes=True
        )
        super().__init__(context, self.listener)
        self.config = config
        self.resources = restms_resources(context)
        self._rates = RequestRates(config.most_requests)
        self._abandoned = AbandonedPipes(context.users, config.pipe_expires)

    async def on_start(self) -> None:
        """Find what the store has, and listen."""
        self.resources.show(self.config)
        await super().on_start()
        self._look_later()

    def make_client(self, transport: Transport) -> RestMSServerConnection:
        """Return the actor that serves a connection over a transport."""
        return RestMSServerConnection(transport, self.context, self.config, self)

    @property
    def here(self) -> str:
        """What the URIs begin with that a client gets which names no host."""
        return name_of(self.addresses[0]) if self.addresses else "localhost"

    def require_rate(self, user: str) -> None:
        """Count a request of a user.

        Raises:
            Refusal: There were too many lately.
        """
        wait = self._rates.wait(user, trio.current_time()) if self.config.most_requests else 0.0
        if wait > 0:
            text = f"you may ask {self.config.most_requests:g} times in a second; nothing was done; try again later"
            raise Refusal(restms.Problem("too-many", text, restms.retry_after(wait)))

    def wake_later(self, pipes: Sequence[ServedPipe], user: str) -> None:
        """Let pipes take messages again, soon, whose user's actor has crashed, as far as they are waited for then."""
        trio.lowlevel.current_trio_token().run_sync_soon(self.system.turn.run, self._wake_pipes, pipes, user)

    def _wake_pipes(self, pipes: Sequence[ServedPipe], user: str) -> None:
        for pipe in pipes:
            if pipe.is_waited_for:
                try:
                    client_of(self, user, pipe.domain).wake(pipe)
                except (Refused, ActorError):
                    pipe.end_waiting(restms.closing())  # whoever asks again hears why

    def _look_later(self) -> None:
        """Look, now and then, for pipes to delete which sleep: they have no client that would."""
        seconds = min(_LOOK, self.config.pipe_expires / LOOKS or _LOOK)
        self.timers.set(self.config, trio.current_time() + seconds, lambda now: self.system.turn.run(self._look))

    def _look(self) -> None:
        self._look_later()
        now = trio.current_time()
        for staged in [staged for staged in self.resources.contents if staged.until <= now]:
            staged.end()  # its timer has gone with an endpoint that crashed
        books = [self.resources.domains[name].book for name in self.config.domains]
        for pipe in self._abandoned.look(books):
            _log.info("abandoned pipe deleted", extra={"fields": {"pipe": pipe.name, "user": pipe.record.user}})

    def end_staged_after(self, staged: StagedContent, seconds: float) -> None:
        """Delete a staged content that is not used in time."""
        staged.timers, staged.until = self.timers, trio.current_time() + seconds
        self.timers.set(staged, staged.until, lambda now: staged.end())
