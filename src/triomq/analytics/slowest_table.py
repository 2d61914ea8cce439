"""The messages that took longest, over all queues that they went through.

    orders ──from_queue, from_id──▶ retry ──▶ orders ──▶ failed         stays, joined by links to one path

A link is a row ``queued`` that says where the message was before. To find the first stay of each path, every stay
points at the one before it, then at what that one points at, and so on: four rounds make paths of 16 moves whole, and a
longer one is shown as several. Only moves are joined so, and mostly they are few; a message that was never moved is its
one stay, and not grouped with anything.
"""

from typing import Final

from triomq.analytics.relations import T, each_text, is_empty, keep, near, query, struct_text
from triomq.analytics.stay_table import same_message

SLOWEST: Final = 100
_ROUNDS: Final = 4

_PLACE: Final = "node, process, begin"
"""Columns that name a stay."""

_STOP: Final = ("queue", "msg_id", "queued", "delivered", "ended", "outcome", "deliveries")

_TOTAL: Final = "(unix_micros({end}) - unix_micros({begin})) / 1e6 AS total"
_LONGEST: Final = f"WHERE total >= 0 ORDER BY total DESC, {_PLACE} LIMIT {SLOWEST}"


def slowest(events: T, stays: T) -> T:
    """List the messages that took longest from their first queue until their end.

    Moves are joined at once, and not when the table is asked for: plans of joins of joins of joins would be larger than
    what they are about.

    Args:
        events: Rows of a trace log.
        stays: What ``stays`` returns.

    Returns:
        ``node``, and of the first queue ``domain``, ``queue``, ``msg_id``; ``message_id``; ``queued``, when; ``total``,
        ``wait`` and ``run`` in seconds, the last two of all queues together; ``outcome``, how it ended; ``path``, with
        ``queue``, ``msg_id``, ``queued``, ``delivered``, ``ended``, ``outcome`` and ``deliveries`` of each queue.
    """
    begun = query("SELECT * FROM {stays} WHERE begin IS NOT NULL", stays=stays)
    moved = near(keep(_moved(keep(_links(events, begun)))))
    stop = f"domain, {', '.join(_STOP)}, wait, run"
    linked = query(
        f"""
        SELECT b.node, m.first_process AS process, m.first_begin AS begin, b.process AS at_process, b.begin AS at_begin,
            {stop} FROM {{begun}} b JOIN {{moved}} m ON {_same_place("b", "m")}
        """,
        begun=begun,
        moved=moved,
    )
    total = _TOTAL.format(end="max(ended)", begin="min(queued)")
    longest = query(
        f"SELECT * FROM (SELECT {_PLACE}, {total} FROM {{linked}} GROUP BY {_PLACE}) paths {_LONGEST}", linked=linked
    )
    alone = query(
        f"""
        SELECT * FROM (
            SELECT {_PLACE}, {_TOTAL.format(end="ended", begin="queued")}, process AS at_process, begin AS at_begin,
                {stop} FROM {{begun}} b ANTI JOIN {{moved}} m ON {_same_place("b", "m")}
        ) stays_alone {_LONGEST}
        """,
        begun=begun,
        moved=moved,
    )
    of_path = f"{_PLACE}, total, at_process, at_begin, {stop}"
    paths = keep(
        query(
            f"""
            SELECT * FROM (
                SELECT {_PLACE}, total, array_sort(collect_list({_stop_of(stays)})) AS stops, sum(wait) AS wait,
                    sum(run) AS run
                FROM (
                    SELECT {of_path} FROM {{alone}} UNION ALL
                    SELECT l.node, l.process, l.begin, o.total, at_process, at_begin, {stop}
                    FROM {{linked}} l JOIN {{longest}} o ON {_same_place("l", "o")}
                ) rows_of_paths
                GROUP BY {_PLACE}, total
            ) paths {_LONGEST}
            """,
            alone=alone,
            linked=linked,
            longest=near(keep(longest)),
        )
    )
    texts = query(
        """
        SELECT e.node, e.process, e.seq AS begin, e.message_id
        FROM {events} e JOIN {paths} p ON e.node = p.node AND e.process = p.process AND e.seq = p.begin
        WHERE e.kind = 'queued'
        """,
        events=events,
        paths=near(paths),
    )
    first = ", ".join(f"(try_element_at(stops, 1)).{name} AS {name}" for name in ("domain", "queue", "msg_id"))
    hop = struct_text(stays, {name: f"stop.{name}" for name in _STOP})
    return query(
        f"""
        SELECT p.node, {first}, message_id, (try_element_at(stops, 1)).queued AS queued, total, wait, run,
            (try_element_at(stops, -1)).outcome AS outcome, {each_text(stays, "stops", "stop", hop)} AS path
        FROM {{paths}} p LEFT JOIN {{texts}} t ON {_same_place("p", "t")}
        ORDER BY total DESC, node, domain, queue, msg_id
        """,
        paths=paths,
        texts=texts,
    )


def _same_place(left: str, right: str) -> str:
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in _PLACE.split(", "))


def _stop_of(table: T) -> str:
    """Return in SQL what there is to know of a stay, in the order of the log if it is sorted."""
    names = ("at_process", "at_begin", "domain", *_STOP)
    return struct_text(table, {name: name for name in names})


def _links(events: T, begun: T) -> T:
    """Return each stay that has one before it, and that one: the last of this id that began before."""
    moves = query(
        """
        SELECT node, process, seq AS begin, domain, from_queue AS queue, from_id AS msg_id FROM {events}
        WHERE kind = 'queued' AND from_queue IS NOT NULL AND from_id IS NOT NULL
        """,
        events=events,
    )
    return query(
        f"""
        SELECT {_PLACE}, first_process, first_begin
        FROM (
            SELECT m.node, m.process, m.begin, b.process AS first_process, b.begin AS first_begin,
                row_number() OVER (
                    PARTITION BY m.node, m.process, m.begin ORDER BY b.process DESC, b.begin DESC
                ) AS back
            FROM {{begun}} b JOIN {{moves}} m ON {same_message("b", "m")}
            WHERE b.process < m.process OR (b.process = m.process AND b.begin < m.begin)
        ) pairs
        WHERE back = 1
        """,
        begun=begun,
        moves=near(keep(moves)),
    )


def _moved(links: T) -> T:
    """Return each stay of a message that was moved, and the first one of its path, which is its own first."""
    if is_empty(links):
        return links
    for _ in range(_ROUNDS):
        links = keep(
            query(
                """
                SELECT l.node, l.process, l.begin, coalesce(a.first_process, l.first_process) AS first_process,
                    coalesce(a.first_begin, l.first_begin) AS first_begin
                FROM {links} l LEFT JOIN {above} a
                    ON l.node = a.node AND l.first_process = a.process AND l.first_begin = a.begin
                """,
                links=links,
                above=links,
            )
        )
    return query(
        f"""
        SELECT {_PLACE}, first_process, first_begin FROM {{links}}
        UNION ALL SELECT DISTINCT node, first_process, first_begin, first_process, first_begin FROM {{firsts}}
        """,
        links=links,
        firsts=links,
    )
