"""Steps that several groups of questions share."""

import re
import time

from pamqp import commands
from pamqp.header import ContentHeader

from ..raw import encode, raw_frame
from .session import PATIENCE, SOON, Peer

Basic, Confirm, Queue = commands.Basic, commands.Confirm, commands.Queue


def message(
    key: str, body: bytes = b"x", exchange: str = "", *, mandatory: bool = False, **properties: object
) -> bytes:
    """A publish of a message with properties."""
    return encode(
        1,
        Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory),
        ContentHeader(body_size=len(body), properties=Basic.Properties(**properties)),
    ) + (raw_frame(3, 1, body) if body else b"")


def fill(peer: Peer, queue: str, count: int) -> None:
    """Publish bodies 0, 1, 2 …, and wait until they are in the queue, which has no consumer."""
    for number in range(count):
        peer.send_steps(message(queue, b"%d" % number))
    ends = time.monotonic() + PATIENCE
    while True:
        found = peer.do(Queue.Declare(queue=queue, passive=True))
        assert isinstance(found, Queue.DeclareOk)
        if found.message_count == count:
            return
        assert time.monotonic() < ends, f"{found.message_count} of {count} messages are in the queue"
        time.sleep(SOON)


def confirmed(peer: Peer, *messages: bytes) -> list[str]:
    """Publish one after the other on a channel with confirms; return which are acked or nacked, and other answers.

    Whether a confirm has ``multiple`` set is the broker's own choice, and is left out.
    """
    return [re.sub(r"(Basic\.N?[Aa]ck delivery_tag=\d+) .*", r"\1", peer.ask(each)) for each in messages]
