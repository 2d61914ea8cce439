"""Which way to log in to an MTL broker: the best one that both sides have."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triomq.clients.sasl import BY_PASSWORD, SASLDialogue, begin_dialogue
from triomq.errors import AccessRefused

if TYPE_CHECKING:
    from triomq.clients.mtl.url import MTLUrl


def begin_login(url: "MTLUrl", offered: Sequence[str]) -> SASLDialogue:
    """Return the best way to log in of those that a broker offers.

    Raises:
        AccessRefused: There is none, with what the URL has.
    """
    names = {name.upper(): name for name in offered}
    if url.auth_mechanism:
        wanted: Sequence[str] = (url.auth_mechanism.upper(),)
    elif url.user:
        wanted = BY_PASSWORD
    else:
        wanted = ("EXTERNAL",) if url.keys else ()
    for name in wanted:
        if name in names:
            return begin_dialogue(names[name], url.user, url.password)
    has = "a user and a password" if url.user else "keys" if url.keys else "neither a user nor keys"
    raise AccessRefused(
        f"the broker at {url.address()} takes {', '.join(offered) or 'nothing'}, and the URL has {has}"
        + (f" and asks for {url.auth_mechanism}" if url.auth_mechanism else "")
        + "; write mtl://user:password@…, or keys= and server_key= for EXTERNAL"
    )
