"""Settling what was delivered on one channel, by basic.ack and basic.nack."""

from typing import TYPE_CHECKING

from triomq.clients.settling import Settling
from triomq.protocols.amqp import BasicAck, BasicNack

if TYPE_CHECKING:
    from triomq.clients.amqp.link import Link


class Acks(Settling):
    """Made by its line, for all deliveries that have to be settled there.

    Args:
        link: The connection.
        number: Of the channel.
    """

    __slots__ = ("_link", "_number")

    def __init__(self, link: "Link", number: int) -> None:
        super().__init__()
        self._link = link
        self._number = number

    def _flush_soon(self) -> None:
        self._link.settle_soon(self)

    def _send_accepted(self, tag: int, *, multiple: bool) -> None:
        self._link.send(self._number, BasicAck(tag, multiple=multiple))

    def _send_refused(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        self._link.send(self._number, BasicNack(tag, multiple=multiple, requeue=requeue))
