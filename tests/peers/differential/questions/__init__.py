"""All questions, group by group."""

from ..question import Question
from . import (
    arguments,
    bounds,
    channels,
    closes,
    confirms,
    consuming,
    copies,
    exchanges,
    frames,
    handshake,
    letters,
    messages,
    policies,
    queues,
    replies,
    requeueing,
    rights,
    rows,
    times,
    transactions,
)

GROUPS = [
    handshake.GROUP,
    frames.GROUP,
    channels.GROUP,
    closes.GROUP,
    rows.GROUP,
    arguments.GROUP,
    exchanges.GROUP,
    queues.GROUP,
    consuming.GROUP,
    requeueing.GROUP,
    messages.GROUP,
    confirms.GROUP,
    transactions.GROUP,
    bounds.GROUP,
    times.GROUP,
    letters.GROUP,
    copies.GROUP,
    replies.GROUP,
    policies.GROUP,
    rights.GROUP,
]
QUESTIONS: list[Question] = [question for group in GROUPS for question in group.questions]
