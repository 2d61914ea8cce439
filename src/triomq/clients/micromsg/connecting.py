"""From a URL to a peer that has let us in.

The steps: TCP or a Unix socket, TLS where the URL asks for it, the handshake of three messages, and a log-in by
``x-sasl`` if the URL has a user. Deadline for all of them together is the URL's ``timeout``.
"""

import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import trio

from triomq.clients.amqp.connecting import dial
from triomq.clients.micromsg.link import LinkOwner, MicroMsgLink
from triomq.clients.micromsg.url import MicroMsgUrl
from triomq.clients.sasl import BY_PASSWORD, SASLDialogue, begin_dialogue
from triomq.errors import AccessRefused, Disconnected, RemoteProtocolError, TriomqError
from triomq.protocols.micromsg import HandshakeCompleted, HandshakeExtension, SASLAccepted, Settings
from triomq.transports import Poller, Transport

_MOST_CHALLENGES: Final = 10
"""Challenges of one login; SCRAM has two."""

_SASL: Final = "x-sasl"

Dial: TypeAlias = Callable[[Poller], Awaitable[Transport]]
"""Connects; a poller watches what is a plain socket."""


def dial_by_url(url: MicroMsgUrl, ssl_context: ssl.SSLContext | None) -> Dial:
    """Return what connects to where a URL says."""
    return lambda poller: dial(url, ssl_context, poller, subprotocol="micromsg")


def settings_for(url: MicroMsgUrl, extensions: Sequence[HandshakeExtension] = ()) -> Settings:
    """Return the engine's settings for a URL.

    Args:
        url: What to agree on.
        extensions: Further ones, which the peer need not know.
    """
    known = ["ack"] if url.window else []
    if not url.is_sharpmessaging:
        known += [
            *(["batch-ack"] if url.window else []),
            "pub-sub",
            "x-reply",
            *(["x-heartbeat"] if url.heartbeat else []),
        ]
    return Settings(
        identity=url.identity,
        required=(HandshakeExtension(_SASL),) if url.user or url.auth_mechanism else (),
        optional=(*map(HandshakeExtension, known), *extensions),
        window=url.window or 1,
        heartbeat=url.heartbeat,
        max_payload=min(url.max_message, 1024 * 1024),
        max_message=url.max_message,
        handshake_timeout=2 * url.timeout,  # our own deadline comes first, and its error has more words
        is_sharpmessaging=url.is_sharpmessaging,
    )


async def connect(
    url: MicroMsgUrl, reach: Dial, nursery: trio.Nursery, settings: Settings, owner: LinkOwner
) -> tuple[MicroMsgLink, HandshakeCompleted]:
    """Connect and log in.

    Args:
        url: Where to, as whom, and how many seconds it may take.
        reach: Connects.
        nursery: Where the connection runs, until it ends or this is cancelled.
        settings: For the engine.
        owner: What the messages are for.

    Raises:
        Disconnected: Nobody listens there, or lets us in in time.
        TriomqError: The peer refuses us.
    """
    poller = Poller()
    with trio.move_on_after(url.timeout):
        try:
            transport = await reach(poller)
        except BaseException:
            poller.close()
            raise
        link = MicroMsgLink(transport, poller, settings, url.place, owner)
        nursery.start_soon(link.run)
        try:
            agreed = await link.opened.wait()
            if link.engine.speaks(_SASL):
                await _log_in(link, url, agreed)
        except TriomqError as error:
            link.end(error)
            raise
        except BaseException:
            link.end(Disconnected("no task waits for this connection any more"))
            raise
        return link, agreed
    raise Disconnected(
        f"the peer at {url.place} does not let us in within {url.timeout:g} s; see whether it is busy and speaks "
        "MicroMsg2, or raise ?timeout= in the URL"
    )


async def _log_in(link: MicroMsgLink, url: MicroMsgUrl, agreed: HandshakeCompleted) -> None:
    """Show who we are."""
    dialogue = _begin(url, agreed)
    event = await link.log_in(dialogue.mechanism, dialogue.begin())
    for _ in range(_MOST_CHALLENGES):
        if isinstance(event, SASLAccepted):
            if not dialogue.is_complete and event.data:  # what the mechanism says last may come with the outcome
                await trio.to_thread.run_sync(dialogue.answer, event.data)
            if not dialogue.is_complete:
                raise AccessRefused("the broker lets us in, and has not shown that it knows the password; is it ours?")
            return
        event = await link.respond(await trio.to_thread.run_sync(dialogue.answer, event.challenge))  # it hashes
    raise RemoteProtocolError(f"the broker at {url.place} challenges {dialogue.mechanism} again and again")


def _begin(url: MicroMsgUrl, agreed: HandshakeCompleted) -> SASLDialogue:
    """Return the best way to log in of those that the broker offers."""
    (extension,) = [each for each in agreed.extensions if each.name == _SASL]
    offered = extension.properties.get("mechanisms", "").split()
    names = {name.upper(): name for name in offered}
    for name in (url.auth_mechanism.upper(),) if url.auth_mechanism else BY_PASSWORD:
        if name in names:
            return begin_dialogue(names[name], url.user, url.password)
    raise AccessRefused(
        f"the broker at {url.place} takes {', '.join(offered) or 'nothing'} here"
        + (f", and the URL asks for {url.auth_mechanism}" if url.auth_mechanism else "")
        + "; come over TLS (micromsgs://), or choose another ?auth_mechanism="
    )
