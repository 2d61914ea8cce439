"""The MTL endpoint: sockets for control and data, and what its sessions and flows share.

REQ, DEALER ──> ControlListener ──> MTLControlPeer ── grants ──> DataLease
│ claimed by
DEALER ───────> RouterListener ───> MTLDataPeer <───────────────────┘
"""

import logging
from collections import Counter
from functools import partial
from typing import Final

import trio

from triomq.core import SESSIONS, Shares
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import Endpoint
from triomq.endpoints.base.endpoint_config import read_secret_key
from triomq.endpoints.mtl.admission import ConnectionAdmission, ConnectionName
from triomq.endpoints.mtl.config import MTL
from triomq.endpoints.mtl.content import ContentTables
from triomq.endpoints.mtl.control_peer import MTLControlPeer
from triomq.endpoints.mtl.data_peer import MTLDataPeer
from triomq.endpoints.mtl.leases import LeaseTable
from triomq.endpoints.mtl.listener import ControlListener, SharedListener
from triomq.endpoints.mtl.login import mechanisms_for
from triomq.endpoints.mtl.profile import ResourceProfile
from triomq.endpoints.zmtp import MECHANISMS, RouterListener
from triomq.protocols.mtl import MTLSettings
from triomq.security import MakeMechanism
from triomq.transports import is_loopback

_log = logging.getLogger("triomq.endpoints")

_SESSIONS_OF_CONNECTION: Final = 100
"""Sessions that one connection may have, that of a proxy."""

_OFFERS: Final = 1000
"""Sets of mechanisms that are remembered, one for each user that ZeroMQ has let in."""


class MTLEndpoint(Endpoint):
    """The actor that listens for MTL.

    Args:
        config: Where and how.
        context: What the broker lends.
    """

    def __init__(self, config: MTL, context: BrokerContext) -> None:
        self.config = config
        self.settings = MTLSettings(
            max_message_size=config.max_message_size, heartbeat=config.heartbeat, silence=config.silence
        )
        admission = ConnectionAdmission(
            mechanism=MECHANISMS[config.security],
            secret_key=read_secret_key(config.key_file),
            old_zeromq=config.old_zeromq,
        )
        make_control = partial(MTLControlPeer, context=context, hub=self)
        make_data = partial(MTLDataPeer, context=context, hub=self)
        host, port = config.host, config.port
        self.control: RouterListener
        """Where control sessions come in."""
        self.data: RouterListener
        """Where data flows do; it may be the same."""
        if config.shared:
            self.control = self.data = SharedListener(
                context, host, port, make_control, make_data, admission, tls=config.tls
            )
        else:
            self.control = ControlListener(context, host, port, make_control, admission, tls=config.tls)
            assert config.data_port is not None  # the configuration has chosen one
            before = context.lasting.get(_data_port_of(port)) if port and not config.data_port else None
            data_port = before if isinstance(before, int) else config.data_port
            self.data = RouterListener(context, host, data_port, make_data, admission, tls=config.tls)
        super().__init__(context, *dict.fromkeys((self.control, self.data)))
        self.profiles: dict[str, ResourceProfile] = {
            name: kind(context) for name, kind in config.find_profiles().items()
        }
        """The profiles by their names in lower case."""
        self.profile_names = tuple(profile.name for profile in self.profiles.values())
        self.leases = LeaseTable(self.timers, trio.current_time, config.lease_seconds, config.most_leases)
        self.tables = ContentTables(context.codecs)
        self.sessions: dict[MTLControlPeer, None] = {}
        """Those whose Connection.Open was accepted."""
        self._of_connection: Counter[tuple[str, bytes]] = Counter()  # how many of them
        self.troubles: Counter[str] = Counter()
        """What went wrong with messages, and how often."""
        self._offers: dict[tuple[bool, str], dict[str, MakeMechanism]] = {}

    async def on_start(self) -> None:
        """Listen, and remember where: a restart must not move the data port, for which flows look again."""
        await super().on_start()
        self.context.lasting[_data_port_of(self.control.port)] = self.data.port

    async def on_stop(self) -> None:
        """End the leases that are left, and with them their sessions."""
        self.leases.close()
        await super().on_stop()

    @property
    def knows_peers(self) -> bool:
        """Whether ZeroMQ has found out who its peers are."""
        return self.config.security != "null"

    @property
    def data_port(self) -> int:
        """The port that leases name."""
        return self.data.port

    def make_room_for(self, session: MTLControlPeer) -> bool:
        """Return whether a session may be opened, again or as one more; the oldest that is not logged in gives way.

        A connection may stand for many clients of a proxy, whose identities cost nothing to invent.
        """
        if session in self.sessions:
            return True
        if self._of_connection[session.login, session.identity] >= _SESSIONS_OF_CONNECTION:
            return False
        if len(self.sessions) < self.config.most_sessions:
            return True
        guest = next((each for each in self.sessions if not each.entered), None)
        if guest is None:
            return False
        guest.give_way()
        return True

    def require_share(self, user: str) -> None:
        """Require that a user may have one more session.

        Raises:
            ShareReached: It may not.
        """
        shares, most = Shares(), self.config.most_sessions
        for session in self.sessions:
            if session.entered:
                shares.take(SESSIONS, session.session.user)
        shares.require(SESSIONS, user, most=max(most, SESSIONS.part))

    def add_session(self, session: MTLControlPeer) -> None:
        """Count a session whose Connection.Open was accepted."""
        if session not in self.sessions:
            self.sessions[session] = None
            self._of_connection[session.login, session.identity] += 1

    def remove_session(self, session: MTLControlPeer) -> None:
        """Count a session no more."""
        if session in self.sessions:
            del self.sessions[session]
            key = (session.login, session.identity)
            self._of_connection[key] -= 1
            if not self._of_connection[key]:
                del self._of_connection[key]

    def mechanisms_for(self, name: ConnectionName) -> dict[str, MakeMechanism]:
        """Return how the client of a connection may log in; the same object for all alike."""
        key = (is_loopback(name.address), name.user)
        found = self._offers.get(key)
        if found is None:
            if len(self._offers) >= _OFFERS:
                self._offers.clear()
            found = self._offers[key] = mechanisms_for(self.config, name)
        return found

    def count(self, trouble: str, reason: str) -> None:
        """Count a message that was dropped or not taken; the first one of each kind is logged."""
        self.troubles[trouble] += 1
        if self.troubles[trouble] == 1:
            _log.warning("message of MTL not taken", extra={"fields": {"reason": reason}})


def _data_port_of(port: int) -> str:
    """Return by which name the data port is remembered that belongs to a control port."""
    return f"MTL data port of {port}"
