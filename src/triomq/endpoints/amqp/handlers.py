"""What the broker does for each method that a client may send on a channel, as a table.

A handler gets the channel and the method, asks the core in place, and replies. It raises a refusal of the core's, or
``AMQPRefusal``, for what AMQP closes channels for; it never waits.
"""

from typing import cast

from triomq.endpoints.amqp.channel import Handler, ServerChannel
from triomq.endpoints.amqp.consuming import CONSUMING
from triomq.endpoints.amqp.control import control_request
from triomq.endpoints.amqp.direct import DIRECT
from triomq.endpoints.amqp.permissions import guarded
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.amqp.restms import RESTMS
from triomq.endpoints.amqp.topology import TOPOLOGY
from triomq.endpoints.amqp.transaction import ChannelTransaction
from triomq.protocols.amqp import (
    AccessRequest,
    AccessRequestOk,
    BasicCancelOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ControlRequest,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)

# Channel and confirm


def _flow(channel: ServerChannel, method: ChannelFlow) -> None:
    channel.reply(ChannelFlowOk(method.active))
    if method.active:
        channel.resume()
    else:
        channel.pause()


def _confirm_select(channel: ServerChannel, method: ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise AMQPRefusal(406, "cannot switch from tx to confirm mode")
    channel.publisher.select_confirms()
    if not method.no_wait:
        channel.reply(ConfirmSelectOk())


def _access_request(channel: ServerChannel, method: AccessRequest) -> None:
    channel.reply(AccessRequestOk(1))


# Transactions (section 1.9)


def _tx_select(channel: ServerChannel, method: TxSelect) -> None:
    if channel.publisher.confirms is not None:
        raise AMQPRefusal(406, "cannot switch from confirm to tx mode")
    channel.select_transactions()
    channel.reply(TxSelectOk())


def _transaction(channel: ServerChannel) -> ChannelTransaction:
    if channel.transaction is None:
        raise AMQPRefusal(406, "channel is not transactional")
    return channel.transaction


def _tx_commit(channel: ServerChannel, method: TxCommit) -> None:
    _transaction(channel).commit()
    channel.reply(TxCommitOk())


def _tx_rollback(channel: ServerChannel, method: TxRollback) -> None:
    _transaction(channel).rollback()
    channel.reply(TxRollbackOk())


def _ignore(channel: ServerChannel, method: BasicCancelOk | ChannelFlowOk) -> None:
    """Ignore the answer to a method of ours; nothing waits for it, so one that answers nothing does no harm."""


HANDLERS: dict[type[Method], Handler] = guarded(
    cast(
        "dict[type[Method], Handler]",
        {
            **TOPOLOGY,
            **CONSUMING,
            **DIRECT,
            **RESTMS,
            AccessRequest: _access_request,
            BasicCancelOk: _ignore,
            ChannelFlow: _flow,
            ChannelFlowOk: _ignore,
            ConfirmSelect: _confirm_select,
            ControlRequest: control_request,
            TxCommit: _tx_commit,
            TxRollback: _tx_rollback,
            TxSelect: _tx_select,
        },
    )
)
"""Method to handler; the rows pair each handler with the one type that it is written for."""
