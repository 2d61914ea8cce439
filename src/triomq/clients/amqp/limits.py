"""What a client keeps before it writes or stops reading, and how long it waits for a goodbye."""

WRITE_AT = 64 * 1024
"""Octets that may gather before they are written though other tasks have yet to add theirs."""

UNTAKEN_MOST = 256 * 1024
"""Octets that may wait for the broker to take them before publishing waits too."""

BUFFERED_MOST = 4 * 1024 * 1024
"""Octets that consumers without a prefetch may leave unread before the socket is not read any more."""

GOODBYE = 2.0
"""Seconds that a broker gets to answer our goodbye."""
