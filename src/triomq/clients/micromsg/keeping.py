"""One link after the other: connecting again when one is lost, as long as that makes sense.

    start ──▶ link ──▶ lost: the owner hears of it ──▶ wait, longer each time ──▶ connect, recover ──▶ link
                          └── no sense in coming back, or too many tries ──▶ give up: the owner hears why

A peer that ended a link because of what we said would do so again, since that would be said again. What makes sense
nevertheless is known by the code of its ERROR.
"""

import logging
from typing import Protocol

import trio

from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.amqp.pending_reply import fresh
from triomq.clients.micromsg.connecting import Dial, connect
from triomq.clients.micromsg.link import LinkOwner, MicroMsgLink
from triomq.clients.micromsg.url import MicroMsgUrl
from triomq.errors import Disconnected, TriomqError
from triomq.protocols.micromsg import HandshakeCompleted, Settings

_log = logging.getLogger("triomq.clients")


class KeeperOwner(LinkOwner, Protocol):
    """The connection that the links are for."""

    def lost(self) -> None:
        """Note that there is no link now."""

    async def recover(self, link: MicroMsgLink) -> None:
        """Make on a new link everything as it was."""

    def gave_up(self, error: TriomqError) -> None:
        """Fail everything that waits: there will be no link any more."""


class LinkKeeper:
    """Made by its connection; has one link, or is on the way to the next one, or has given up.

    Args:
        url: Where to, and as whom.
        reach: Connects to it.
        policy: When to try again.
        settings: For engines.
        owner: What the links are for.
    """

    def __init__(
        self, url: MicroMsgUrl, reach: Dial, policy: Reconnect, settings: Settings, owner: KeeperOwner
    ) -> None:
        self.link: MicroMsgLink | None = None
        self.agreed = HandshakeCompleted("", (1, 0), (), 0)
        """What was agreed on last."""
        self.reconnects = 0
        """How often it has come back."""
        self.error: TriomqError | None = None
        """Why it has given up, if it has."""
        self._url = url
        self._reach = reach
        self._policy = policy
        self._settings = settings
        self._owner = owner
        self._up = trio.Event()
        self._down = trio.Event()
        self._is_ending = False
        self._nursery: trio.Nursery | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a link, and all on it is as it was."""
        return self.link is not None and self.link.error is None

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect for the first time; raises as ``open_micromsg`` does."""
        self._nursery = nursery
        link = await self._connect()
        self._set(link)
        nursery.start_soon(self._watch, link)

    async def close(self) -> None:
        """Close in order: what was accepted is told."""
        self._is_ending = True
        if self.link is not None:
            await self.link.close(by_half=not self._url.tls)

    async def ready(self) -> MicroMsgLink:
        """Wait while there is no link.

        Raises:
            TriomqError: Why there will be none any more.
        """
        while True:
            self.check()
            if self.link is not None and self.link.error is None:
                return self.link
            await self._up.wait()

    def check(self) -> None:
        """Raise why there will be no link any more, if that is so."""
        if self.error is not None:
            raise fresh(self.error)

    async def wait_lost(self) -> None:
        """Wait until the link is lost; returns at once while there is none."""
        await self._down.wait()

    async def _connect(self) -> MicroMsgLink:
        assert self._nursery is not None
        link, self.agreed = await connect(self._url, self._reach, self._nursery, self._settings, self._owner)
        return link

    def _set(self, link: MicroMsgLink) -> None:
        self.link = link
        self._down = trio.Event()
        self._up.set()
        link.get_ready()

    async def _watch(self, link: MicroMsgLink) -> None:
        """Connect again whenever the link is lost, as long as that makes sense."""
        failures = 0
        while True:
            began = trio.current_time()
            await link.ended.wait()
            assert link.error is not None
            if self._is_ending:
                return
            self._log_state(logging.WARNING, "connection lost", reason=link.error)
            self.link = None
            self._up = trio.Event()
            self._owner.lost()
            self._down.set()
            if not link.may_return:
                self.give_up(link.error)
                return
            lost = trio.current_time()
            failures = 0 if lost - began > self._policy.max_delay else failures
            returned, failures = await self._come_back(failures)
            if returned is None:
                return
            link = returned
            self.reconnects += 1
            self._set(link)
            self._log_state(logging.INFO, "connection is back", seconds=round(trio.current_time() - lost, 3))

    async def _come_back(self, failures: int) -> tuple[MicroMsgLink | None, int]:
        """Try again and again; return the link, None if that is over, and how many tries there were in a row."""
        tries = 0
        while True:
            seconds = self._policy.seconds(failures)
            await trio.sleep(seconds)
            failures += 1
            tries += 1
            self._log_state(logging.INFO, "connecting again", attempt=tries, waited=round(seconds, 3))
            try:
                return await self._recover(await self._connect()), failures
            except Disconnected as error:
                self._log_state(logging.WARNING, "cannot connect again", attempt=tries, reason=error)
                reason: TriomqError = error
                is_over = tries == self._policy.attempts
            except TriomqError as error:
                reason, is_over = error, True
            if is_over:
                self._log_state(logging.ERROR, "connection given up", attempt=tries, reason=reason)
                self.give_up(reason)
                return None, failures

    async def _recover(self, link: MicroMsgLink) -> MicroMsgLink:
        try:
            await self._owner.recover(link)
        except BaseException as error:
            link.end(error if isinstance(error, TriomqError) else Disconnected("no task waits for this connection"))
            raise
        return link

    def give_up(self, error: TriomqError) -> None:
        """End for good."""
        if self.error is not None:
            return
        self.error = error
        if self.link is not None:
            self.link.end(error)
        self._owner.gave_up(error)
        self._up.set()
        self._down.set()

    def _log_state(self, level: int, text: str, **fields: object) -> None:
        """Log what becomes of the connection; where it leads, without the password."""
        _log.log(level, text, extra={"fields": {"place": self._url.place, **fields}})
