"""The eMQP endpoint: one ROUTER for clients, workers and schedulers, and what its peers share.

client ── REQUEST ──> EMQPPeer ── publish ──> queue ── credit by READY ──> EMQPPeer ── REQUEST ──> worker
└─<── REPLY ────── EMQPPeer <── peers[identity] ───────────────────────── EMQPPeer <── REPLY ────┘
"""

from collections import Counter, defaultdict
from functools import partial
from math import inf
from secrets import token_urlsafe
from typing import Final

import msgspec
import trio

from triomq.core import DeclareSink, Directory, SinkKind, SinkOptions
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import Endpoint
from triomq.endpoints.base.endpoint_config import read_secret_key
from triomq.endpoints.base.memory_listener import MemoryListener
from triomq.endpoints.base.peer_listener import PeerListener
from triomq.endpoints.emqp.answers import LateAnswers
from triomq.endpoints.emqp.config import EMQP
from triomq.endpoints.emqp.content import TOPICS, RequestOrigins
from triomq.endpoints.emqp.jobs.book import JobClock, job_book, result_book
from triomq.endpoints.emqp.jobs.content import JobOrigins
from triomq.endpoints.emqp.jobs.desk import EMQPJobDesk
from triomq.endpoints.emqp.jobs.held import hold_delivered
from triomq.endpoints.emqp.peer import EMQPPeer
from triomq.endpoints.emqp.schedules import ScheduleBook, Scheduler
from triomq.endpoints.emqp.shared import shared_peers
from triomq.endpoints.emqp.topics import TopicListener
from triomq.endpoints.emqp.worker import Tally
from triomq.endpoints.jobs import JobBook, ResultBook
from triomq.endpoints.zmtp import MECHANISMS, Admission, RouterListener
from triomq.errors import ConfigError
from triomq.protocols.emqp import DURABLE, BrokerEngine, message_ids

_LOOPBACK: Final = "127.0.0.1"

_PREFIX: Final = 12
"""Random bytes that begin the ids of an endpoint's messages: unique, and libzmq allocates no memory for an id of up to
33 bytes."""

_PAUSE: Final = 1.0
"""Seconds after which a scheduler that has crashed is followed by another one, perhaps that of another endpoint."""


class EMQPEndpoint(Endpoint):
    """The actor that listens for eMQP.

    Args:
        config: Where and how.
        context: What the broker lends.
    """

    def __init__(self, config: EMQP, context: BrokerContext) -> None:
        admission = Admission(
            mechanism=MECHANISMS[config.security],
            user=config.user if config.security == "null" else "",
            secret_key=read_secret_key(config.key_file),
        )
        make_client = partial(EMQPPeer, context=context, hub=self)
        places = [("", 0, config.path)] if config.path else [(config.host, port, "") for port in config.ports]
        self.routers = [
            RouterListener(context, host, port, make_client, admission, path=path, tls=config.tls)
            for host, port, path in places
        ]
        """Where peers come in over ZeroMQ; empty if it is for code of this program alone."""
        shared = shared_peers(context, config.domain)
        listeners: list[PeerListener] = [*self.routers, MemoryListener(shared.address, make_client)]
        self.admin: RouterListener | None = None
        """Where administrators come in, if there is such a place."""
        if config.admin_port is not None:
            self.admin = RouterListener(context, _LOOPBACK, config.admin_port, make_client, admission)
            listeners.append(self.admin)
        self.topics: TopicListener | None = None
        """Where SUB sockets listen, if there is such a place."""
        if config.topic_port is not None:
            self.topics = TopicListener(
                context, config.host, config.topic_port, config.domain, admission, tls=config.tls
            )
        super().__init__(context, *listeners, *filter(None, (self.topics,)))
        self.domain_name = config.domain
        self._answers_strangers = config.security == "null"
        """Whether an answer may go to a peer that is not known any more: nobody else can have its identity's rights."""
        self.new_id = message_ids(token_urlsafe(_PREFIX).encode())
        self.peers = shared.peers
        self.schedulers: dict[EMQPPeer, None] = {}
        self.troubles: Counter[str] = Counter()
        """What went wrong with messages, and how often."""
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        """What workers have done, by queue."""
        self.late_answers = LateAnswers()
        self.origins = RequestOrigins()
        self.job_origins = JobOrigins()
        self.jobs: JobBook
        """The book of the domain's jobs; there once the endpoint has started, as the results are."""
        self.results: ResultBook
        self.timezone = config.timezone
        self.book: ScheduleBook | None = None
        """The schedules, if they are the broker's own."""
        self._owns_schedules = config.schedules == "broker"
        self._settings = config.settings()
        self._internal_settings = msgspec.structs.replace(self._settings, heartbeat=inf, silence=inf, parting=inf)

    @property
    def listener(self) -> RouterListener:
        """Where most peers come in over ZeroMQ."""
        return self.routers[0]

    @property
    def has_requesters(self) -> bool:
        """Whether those that are not here have gone: after a restart, and at the end, they had no time to come back."""
        return not self.is_stopping and not self.jobs.hold

    @property
    def awaits_requesters(self) -> bool:
        """Whether requesters may yet come back after a restart."""
        return bool(self.jobs.hold) and not self.is_stopping

    def send_to_stranger(self, identity: bytes, frames: tuple[bytes, ...]) -> bool:
        """Send a message to a peer that is not known any more, where nobody else can have come by its rights.

        Released clients say nothing while they wait for an answer.

        Returns:
            Whether it is there.
        """
        return self._answers_strangers and any(router.send(identity, frames) for router in self.routers)

    async def on_start(self) -> None:
        """See that the sink of topics is there, and listen."""
        domain = self.context.domains.get(self.domain_name)
        if domain is None:
            raise ConfigError(f"there is no domain {self.domain_name!r}")
        if TOPICS not in domain.directory.sinks:
            await domain.ref.ask(DeclareSink(TOPICS, SinkOptions(kind=SinkKind.TOPIC)))
        if domain.directory.persistence is not None:
            self._announce_durable()
        self.jobs = job_book(self.context, domain.directory)
        self.results = result_book(self.context, domain.directory)
        await hold_delivered(domain.directory, self.jobs, self.job_origins)
        self.context.jobs[self.domain_name] = EMQPJobDesk(self.context, domain.directory, self.jobs, self.new_id)
        if self._owns_schedules:
            self.book = self._find_book(domain.directory)
            self.context.schedules[self.domain_name] = self.book.statistics
        await super().on_start()
        if self.book is not None:
            self.start_task(self._run_schedules, self.book)
        self.start_task(self._run_clock, self.jobs)

    def _announce_durable(self) -> None:
        """Tell peers that jobs with a guarantee survive a restart: then they go on waiting for answers."""
        capabilities = (*self._settings.capabilities, DURABLE)
        self._settings = msgspec.structs.replace(self._settings, capabilities=capabilities)
        self._internal_settings = msgspec.structs.replace(self._internal_settings, capabilities=capabilities)

    def _find_book(self, directory: Directory) -> ScheduleBook:
        """Return the domain's schedules, which are read from the store once."""
        name = f"eMQP schedules of {directory.name}"
        book = self.context.lasting.get(name) or ScheduleBook(directory, self.context.unix_time)
        assert isinstance(book, ScheduleBook)
        self.context.lasting[name] = book
        return book

    async def _run_schedules(self, book: ScheduleBook) -> None:
        """Have an actor send what is due; one that crashes is followed by another one."""
        while not self.is_stopping:
            if not book.is_served:
                scheduler = Scheduler(self.context, self.domain_name, book)
                self.serve(scheduler)
                await scheduler.gone.wait()
            await trio.sleep(_PAUSE)

    async def _run_clock(self, book: JobBook) -> None:
        """Have an actor look after the book's time; of several endpoints one does so."""
        while not self.is_stopping:
            if book.parking.clock.on_earlier is None:
                clock = JobClock(self.context, book, self.results)
                self.serve(clock)
                await clock.gone.wait()
            await trio.sleep(_PAUSE)

    def make_engine(self, *, internal: bool) -> BrokerEngine:
        """Return the engine of a new peer.

        Args:
            internal: Whether that is code of this program, whose end is announced, and whose silence means nothing.
        """
        settings = self._internal_settings if internal else self._settings
        return BrokerEngine(self.new_id, now=trio.current_time(), unix_time=self.context.unix_time(), settings=settings)
