"""The log itself: from when to when, of whom, and what is missing."""

from triomq.analytics.relations import T, query


def log(events: T) -> T:
    """Return one row about all rows.

    Args:
        events: Rows of a trace log.

    Returns:
        ``first`` and ``last``, times; ``events``, how many; ``nodes``, their names; ``lost``, how many events the
        brokers had no room for; ``missing``, how many more are not there, since a process numbers its rows without
        gaps: files that were skipped, or removed between others.
    """
    return query(
        """
        SELECT min(first) AS first, max(last) AS last, cast(coalesce(sum(events), 0) AS bigint) AS events,
            array_sort(collect_set(node)) AS nodes, cast(coalesce(sum(lost), 0) AS bigint) AS lost,
            cast(coalesce(sum(missing), 0) AS bigint) AS missing
        FROM (
            SELECT node, process, min(ts) AS first, max(ts) AS last, count(*) AS events,
                sum(CASE WHEN kind = 'lost-events' THEN size END) AS lost,
                max(seq) - min(seq) + 1 - count(*) AS missing
            FROM {events} GROUP BY node, process
        ) by_process
        """,
        events=events,
    )
