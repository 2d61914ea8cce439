"""How many messages come and go, by minutes; of a table as of a stream."""

from triomq.analytics.relations import T, query

_COUNTED = ("queued", "delivered", "accepted", "requeued")
_GONE = "kind IN ('expired', 'dropped', 'discarded')"


def throughput(events: T) -> T:
    """Count what happens in each minute.

    Args:
        events: Rows of a trace log, or a stream of them; that needs a watermark of ``ts`` for a sink that appends.

    Returns:
        ``minute``, its beginning; ``node``, ``domain``, ``queue``; ``protocol``: that of publishers for ``queued`` and
        ``bytes``, and that of consumers for the rest; ``queued``, ``delivered``, ``accepted``, ``requeued``, how many
        messages; ``gone``, how many left the queue otherwise: they expired, had no room or were removed by request;
        ``purges``, how often all were removed that no consumer had; ``bytes``, how large those that were queued.
    """
    counts = ", ".join(f"count_if(kind = '{name}') AS {name}" for name in _COUNTED)
    return query(
        f"""
        SELECT minute.start AS minute, node, domain, queue, protocol, {", ".join(_COUNTED)}, gone, purges, bytes
        FROM (
            SELECT minute, node, domain, queue, protocol, {counts},
                count_if({_GONE}) AS gone, count_if(kind = 'purged') AS purges,
                cast(coalesce(sum(size), 0) AS bigint) AS bytes
            FROM (
                SELECT window(ts, '1 minute') AS minute, node, domain, queue, protocol, kind, size
                FROM {{events}}
                WHERE (kind IN {_COUNTED} OR {_GONE} OR kind = 'purged') AND queue IS NOT NULL
            ) rows_of_queues
            GROUP BY minute, node, domain, queue, protocol
        ) counted
        """,
        events=events,
    )
