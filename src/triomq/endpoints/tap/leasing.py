"""LEASE, and the ledgers of groups under a queue's name, where OFFSETS, FETCH and ACK find streams; see the core's."""

from typing import TYPE_CHECKING, Final

from triomq.core import GroupLedger, LeaseMessages, QueueState, ledgers_of
from triomq.endpoints.tap.partitions import OtherIdentity, shown
from triomq.errors import NotFound
from triomq.protocols.tap import AckAsked, LeaseAsked

if TYPE_CHECKING:
    from triomq.endpoints.tap.connection import TapServerConnection

_RECORDS_PER_PUSH: Final = 10
"""Messages that move in the time of one push into a queue, of which a turn has a budget."""


def lease(connection: "TapServerConnection", event: LeaseAsked) -> None:
    """Move messages, and answer when they are on disk."""
    connection.require_read(event.queue)
    request = LeaseMessages(event.queue, event.group, connection.session, event.most_records, event.most_bytes)
    found = ledgers_of(connection.directory).find(event.queue, event.group, connection.user)
    before = 0 if found is None else found.log.next_id
    leased = connection.ask_unguarded(connection.domain, request)
    connection.system.turn.charge((leased.bounds.stop - before) // _RECORDS_PER_PUSH)
    connection.engine.leased(event.number, shown(leased.bounds), leased.ready)
    state = ledger_of(connection, event.queue, event.group).state
    hold(connection, state, is_changed=found is None or leased.bounds.stop > before)


def hold(connection: "TapServerConnection", *states: QueueState, is_changed: bool = True) -> None:
    """Hold replies until what was done to streams is on disk, if any of them is; earlier changes count in any case."""
    persistence = connection.directory.persistence
    if persistence is not None and any(state.durable for state in states):
        if is_changed:
            persistence.mark_sync_point()
        connection.hold_replies(persistence)


def named_ledger(connection: "TapServerConnection", queue: str, group: str) -> GroupLedger | None:
    """Return the ledger that a name and a group mean; None if the name is no queue's, or there is no group.

    Raises:
        NotFound: The group has leased nothing from that queue.
        QueueLocked: It belongs to another session.
    """
    state = connection.directory.queues.get(queue)
    if not group or state is None or state.declared.stream is not None or state.is_hidden_from(connection.user):
        return None
    return ledger_of(connection, queue, group)


def ledger_of(connection: "TapServerConnection", queue: str, group: str, partition: int = 0) -> GroupLedger:
    """Return a group's ledger; raises as ``named_ledger``, also if there is no such queue, or partition."""
    directory = connection.directory
    directory.queue(queue, connection.session)
    found = None if directory.ledgers is None else directory.ledgers.find(queue, group, connection.user)
    if found is None:
        raise NotFound(f"group {group!r} has leased nothing from queue {queue!r}; LEASE makes its ledger")
    if partition:
        raise NotFound(f"queue {queue!r} has no partition {partition}; its ledgers have one, number 0")
    return found


def acknowledge(connection: "TapServerConnection", event: AckAsked, ledger: GroupLedger) -> None:
    """Drop what a group has done of its ledger."""
    before = ledger.log.base
    for number in event.positions:  # all of them, or none
        ledger_of(connection, event.stream, event.group, number)
    for position in event.positions.values():
        if position.identity not in (None, ledger.log.identity):
            raise OtherIdentity(event.stream, shown(ledger.log.bounds))
        ledgers_of(connection.directory).acknowledge(ledger, position.next)
    connection.engine.done(event.number)
    hold(connection, ledger.state, is_changed=ledger.log.base > before)
