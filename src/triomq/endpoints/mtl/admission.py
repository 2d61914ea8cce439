"""Who comes over a ROUTER of MTL: each connection under a name of its own, whether or not it says who it is.

A peer chooses the identity of its messages, and can take that of one that has gone; even one that looks as if libzmq
had made it. A session that hangs on the identity alone is then inherited by a stranger. So ZeroMQ asks for each
connection, also with NULL, and what is answered stands at each of its messages: a number that no other connection has,
the address that it comes from, by which failed log-ins are counted, and the user that it has shown to be, if any. A
message whose name is another one ends the client of that identity (``RouterListener``).

Peers of ZeroMQ before 4.0 cannot be asked for: libzmq lets them in only where nobody is. See ``MTL.old_zeromq``.
"""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple, Self

import msgspec

from triomq.endpoints.zmtp import Admission

_THIS_MACHINE = "127.0.0.1"
"""The address of peers that were not asked for."""


class ConnectionName(NamedTuple):
    """What a connection is called.

    Args:
        number: The number that it alone has; empty where connections are not asked for.
        address: Where it comes from; empty where that is no address.
        user: As whom ZeroMQ has let it in; empty with NULL.
    """

    number: str
    address: str
    user: str

    @classmethod
    def read(cls, login: str) -> Self:
        """Take apart what stands at the messages of a connection."""
        if not login:
            return cls("", _THIS_MACHINE, "")
        number, address, user = login.split(" ", 2)
        return cls(number, address, user)


class ConnectionAdmission(Admission, frozen=True, kw_only=True):
    """Gives each connection that may come a name of its own.

    Args:
        old_zeromq: Whether connections are not asked for.
    """

    old_zeromq: bool = False
    numbers: Iterator[int] = msgspec.field(default_factory=count)

    @property
    def asks(self) -> bool:
        """Whether a peer has to say who it is: with NULL by SASL, in MTL's own words."""
        return not self.old_zeromq

    @property
    def hands_over(self) -> bool:
        """Whether one user's connections may take identities over from each other: with NULL nobody is known yet."""
        return self.mechanism != "NULL"

    def login_of(self, address: str, user: str) -> str:
        """Return the name of a connection."""
        return f"{next(self.numbers)} {address} {user}"
