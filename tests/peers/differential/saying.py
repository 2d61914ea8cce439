"""What several groups of questions say."""

import re
import time

from pamqp import commands
from pamqp.header import ContentHeader

from ..raw import encode, raw_frame
from .talk import PATIENCE, SOON, Speaker

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


def fill(speaker: Speaker, queue: str, count: int) -> None:
    """Publish bodies 0, 1, 2 …, and wait until they are in the queue, which has nobody to take them."""
    for number in range(count):
        speaker.say(message(queue, b"%d" % number))
    ends = time.monotonic() + PATIENCE
    while True:
        found = speaker.do(Queue.Declare(queue=queue, passive=True))
        assert isinstance(found, Queue.DeclareOk)
        if found.message_count == count:
            return
        assert time.monotonic() < ends, f"{found.message_count} of {count} messages are in the queue"
        time.sleep(SOON)


def confirmed(speaker: Speaker, *messages: bytes) -> list[str]:
    """Publish one after the other on a channel with confirms; whether each is acked or nacked, and what else is said.

    Whether a confirm says ``multiple`` is the broker's own choice, and is left out.
    """
    return [re.sub(r"(Basic\.N?[Aa]ck delivery_tag=\d+) .*", r"\1", speaker.ask(said)) for said in messages]
