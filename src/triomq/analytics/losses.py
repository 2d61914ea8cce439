"""What went wrong with messages: dead letters, peers that were lost, deliveries that were never settled."""

from typing import Final

from triomq.analytics.relations import T, keep, near, query
from triomq.analytics.stay_table import DELIVERED, KEY_COLUMNS, QUEUED, same_message

MOST_UNSETTLED: Final = 1000
"""Rows of ``unsettled``: more than anyone reads, and few enough to look each of them up."""


def dead_letters(events: T) -> T:
    """Count messages that a queue gave up and that went to another one.

    Args:
        events: Rows of a trace log, or a stream of them.

    Returns:
        ``node``, ``domain``, ``from_queue``, ``queue``, where it has arrived; ``reason``; ``messages``, how many;
        ``first`` and ``last``, when.
    """
    return query(
        """
        SELECT node, domain, from_queue, queue, error AS reason, count(*) AS messages, min(ts) AS first, max(ts) AS last
        FROM {events} WHERE kind = 'queued' AND from_queue IS NOT NULL AND error IS NOT NULL
        GROUP BY node, domain, from_queue, queue, error
        """,
        events=events,
    )


def lost_peers(events: T) -> T:
    """List peers that went without a word; of a table as of a stream.

    Args:
        events: Rows of a trace log, or a stream of them.

    Returns:
        ``ts``, ``node``, ``peer``, ``protocol``, ``error``; ``unsettled``, how many deliveries it had.
    """
    return query(
        """
        SELECT ts, node, consumer AS peer, protocol, error, cast(coalesce(size, 0) AS bigint) AS unsettled
        FROM {events} WHERE kind = 'peer-lost'
        """,
        events=events,
    )


def unsettled_by_queue(stays: T) -> T:
    """Count messages that consumers have at the end of the log.

    Args:
        stays: What ``stays`` returns.

    Returns:
        ``node``, ``domain``, ``queue``; ``messages``, how many; ``oldest``, when the first of them was delivered.
    """
    return query(
        """
        SELECT node, domain, queue, count(*) AS messages, min(taken) AS oldest
        FROM {stays} WHERE is_out GROUP BY node, domain, queue
        """,
        stays=stays,
    )


def unsettled(events: T, stays: T) -> T:
    """List the messages that consumers have at the end of the log, those that were delivered first.

    Args:
        events: Rows of a trace log.
        stays: What ``stays`` returns.

    Returns:
        ``node``, ``domain``, ``queue``, ``msg_id``, ``message_id``, ``delivered``, ``consumer``, ``attempt``.
    """
    oldest = query(
        f"""
        SELECT {KEY_COLUMNS}, process, begin, taken FROM {{stays}} WHERE is_out
        ORDER BY taken, {KEY_COLUMNS} LIMIT {MOST_UNSETTLED}
        """,
        stays=stays,
    )
    keys = ", ".join(f"e.{name}" for name in KEY_COLUMNS.split(", "))
    return query(
        f"""
        SELECT {KEY_COLUMNS}, max(CASE WHEN is_begin THEN message_id END) AS message_id, taken AS delivered,
            max(CASE WHEN is_end THEN consumer END) AS consumer, max(CASE WHEN is_end THEN attempt END) AS attempt
        FROM (
            SELECT {keys}, o.taken, e.message_id, e.consumer, e.attempt,
                e.kind = '{QUEUED}' AND e.process = o.process AND e.seq = o.begin AS is_begin,
                e.kind = '{DELIVERED}' AND e.ts = o.taken AS is_end
            FROM {{events}} e JOIN {{oldest}} o ON {same_message("e", "o")}
            WHERE e.kind IN ('{QUEUED}', '{DELIVERED}')
        ) found
        WHERE is_begin OR is_end
        GROUP BY {KEY_COLUMNS}, taken ORDER BY taken, {KEY_COLUMNS}
        """,
        events=events,
        oldest=near(keep(oldest)),
    )
