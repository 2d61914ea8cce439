"""The three handshakes: how they stand on the wire, and what is agreed in them.

    client   I require A, B and suggest X, Y                          first
    server   I support A, B, I require C as well; I suggest Y and Z   reply
    client   A, B, C; and Y and Z of what is optional                 choice

From the choice on an extension is known by its place in it, counted from 1, the required ones first.

The window is what client and server both can: the client says it in its choice. A server that hears more than it has
offered takes its own as its window, and never complains about what the client was free to send.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from triomq.protocols.micromsg.codes import ERROR, LONGEST_ERROR, MAJOR, MINOR, PeerError, printable
from triomq.protocols.micromsg.extensions import (
    ACK,
    BATCH_ACK,
    DEFAULT_WINDOW,
    HEARTBEAT,
    SASL,
    SHARPMESSAGING_HANDSHAKE,
    HandshakeExtension,
    find_extension,
    format_extensions,
    parse_extensions,
)
from triomq.protocols.micromsg.settings import Settings

_FOREIGN_MAJOR: Final = 8
"""The first major version that is taken for another protocol: letters begin at 65, nobody has written a version 2."""

Extensions = Sequence[HandshakeExtension]


class Handshake(NamedTuple):
    """One of the three, in the fields of the wire."""

    major: int
    minor: int
    identity: str
    required: tuple[HandshakeExtension, ...]
    optional: tuple[HandshakeExtension, ...]

    @property
    def is_sharpmessaging(self) -> bool:
        """Whether only SharpMessaging writes such a handshake."""
        return any(extension.is_sharpmessaging for extension in (*self.required, *self.optional))

    @property
    def extensions(self) -> tuple[HandshakeExtension, ...]:
        """All of them, each once, the required ones first: so they are numbered."""
        found: dict[str, HandshakeExtension] = {}
        for extension in (*self.required, *self.optional):
            found.setdefault(extension.canonical, extension)
        return tuple(found.values())


class Agreement(NamedTuple):
    """What is agreed.

    Args:
        names: of the extensions, by their number less one; the one name of each.
        extensions: the same with what the peer says about each.
        window: messages that this side leaves unacknowledged at most; 0 without acks.
        peer_window: messages that the peer may leave so.
        ack_name: the extension by which acks go.
        heartbeat: seconds of silence until a heartbeat is due; 0 for none.
    """

    names: tuple[str, ...]
    extensions: tuple[HandshakeExtension, ...]
    window: int
    peer_window: int
    ack_name: str
    heartbeat: float


def read_handshake(data: bytes, longest: int) -> tuple[Handshake, int] | None:
    """Read a handshake at the beginning of octets; give it and where it ends, or None if it is not whole.

    The flags are reserved, and not looked at.

    Args:
        data: octets, of which the first is no ERROR frame's.
        longest: octets that a list may have.

    Raises:
        PeerError: it is none.
    """
    major = data[0]
    if not 0 < major < _FOREIGN_MAJOR:
        raise PeerError(505, f"major version {major} is not spoken here; {MAJOR} is")
    position = 4 + (data[3] if len(data) > 3 else 0)
    lists: list[bytes] = []
    for what in ("required", "optional"):
        start = position + 2
        length = int.from_bytes(data[position:start], "big")
        if len(data) >= start and length > longest:
            raise PeerError(413, f"the list of {what} extensions has {length} octets; at most {longest} are allowed")
        position = start + length
        lists.append(data[start:position])
    if len(data) < position:
        return None
    required, optional = map(parse_extensions, lists)
    # Other octets than ASCII are a fault of a label that proves nothing: no reason to refuse its bearer.
    identity = printable(data[4 : 4 + data[3]])
    return Handshake(major, data[1], identity, required, optional), position


def write_handshake(identity: str, required: Extensions, optional: Extensions) -> bytes:
    """Write a handshake."""
    name = identity.encode("ascii")
    pieces = [bytes((MAJOR, MINOR, 0, len(name))), name]
    for extensions in (required, optional):
        octets = format_extensions(extensions)
        pieces += (len(octets).to_bytes(2, "big"), octets)
    return b"".join(pieces)


def is_error(first: int) -> bool:
    """Return whether an octet where a handshake may begin is the flags of an ERROR frame, and no version."""
    return bool(first & ERROR)


# What each side says


def with_properties(extension: HandshakeExtension, settings: Settings, *, is_server: bool) -> HandshakeExtension:
    """Return an extension of a side's settings with the properties that the engine adds."""
    name, properties = extension.canonical, dict(extension.properties)
    if name == BATCH_ACK or (name == ACK and settings.is_sharpmessaging):
        properties |= _counts(settings.window, settings, is_sharpmessaging=settings.is_sharpmessaging)
    elif name == HEARTBEAT:
        properties["interval"] = str(round(settings.heartbeat * 1000))
    elif name == SASL and is_server:
        properties["mechanisms"] = " ".join(settings.mechanisms)
    return HandshakeExtension(extension.name, properties)


def _counts(window: int, settings: Settings, *, is_sharpmessaging: bool) -> dict[str, str]:
    if not is_sharpmessaging:
        return {"max-count": str(window)}
    expires = str(round(settings.sharpmessaging_delay * 1000))
    # It looks for its own names, and passes over others.
    return {"max-count": str(window), "MessagesPerAck": str(window), "AckExpireTime": expires}


def known_extensions(settings: Settings, *, is_server: bool) -> dict[str, HandshakeExtension]:
    """Return the extensions of a side by name, with all properties."""
    optional = [each for each in settings.optional if settings.heartbeat or each.canonical != HEARTBEAT]
    listed = (*settings.required, *optional)
    return {each.canonical: with_properties(each, settings, is_server=is_server) for each in listed}


def check_known(names: Iterable[HandshakeExtension], known: Mapping[str, HandshakeExtension], code: int) -> None:
    """Refuse extensions that this side does not know.

    Raises:
        PeerError: there are some.
    """
    unknown = [extension.name for extension in names if extension.canonical not in known]
    if unknown:
        raise PeerError(code, _listing("these extensions are not supported: ", unknown))


def _listing(text: str, names: Iterable[str]) -> str:
    return (text + ", ".join(name[:40] for name in names))[: LONGEST_ERROR - 4]


def reply_to(first: Handshake, settings: Settings) -> bytes:
    """Write a server's reply.

    Raises:
        PeerError: the client requires what this side does not know.
    """
    known = known_extensions(settings, is_server=True)
    check_known(first.required, known, 501)
    offered = {extension.canonical: extension for extension in first.extensions}
    # SharpMessaging looks up what it has required in the reply, and ends where that is missing.
    required = {each.canonical: known[each.canonical] for each in (*settings.required, *first.required)}
    optional = {name: extension for name, extension in known.items() if name not in required}
    if first.is_sharpmessaging:
        optional = {name: extension for name, extension in optional.items() if name in offered}

    def answer(name: str, extension: HandshakeExtension) -> HandshakeExtension:
        theirs = offered.get(name, extension)
        properties = dict(extension.properties)
        if name in (ACK, BATCH_ACK) and theirs.window is not None:
            properties |= _counts(settings.window, settings, is_sharpmessaging=theirs.is_sharpmessaging)
        return HandshakeExtension(theirs.name, properties)

    lists = [[answer(name, extension) for name, extension in each.items()] for each in (required, optional)]
    if first.is_sharpmessaging and len(format_extensions(lists[1])) > SHARPMESSAGING_HANDSHAKE:
        lists[1] = []
    return write_handshake(settings.identity, *lists)


def first_handshake(settings: Settings) -> bytes:
    """Write a client's first."""
    known = known_extensions(settings, is_server=False)
    required = [known[each.canonical] for each in settings.required]
    names = {each.canonical for each in required}
    return write_handshake(settings.identity, required, [each for name, each in known.items() if name not in names])


def choice_after(reply: Handshake, settings: Settings) -> tuple[bytes, Agreement]:
    """Write a client's choice, and say what is agreed with it.

    Raises:
        PeerError: the server requires what this side does not know.
    """
    known = known_extensions(settings, is_server=False)
    check_known(reply.required, known, 501)
    theirs = {extension.canonical: extension for extension in reply.extensions}
    # The specification's own example has a server that does not repeat what its client requires.
    required = {each.canonical: known[each.canonical] for each in (*settings.required, *reply.required)}
    offered = {extension.canonical for extension in reply.optional}
    optional = {name: each for name, each in known.items() if name in offered and name not in required}
    acks = [name for name in (BATCH_ACK, ACK) if name in required] or [n for n in (BATCH_ACK, ACK) if n in optional]
    for name in (BATCH_ACK, ACK):
        if name not in acks[:1]:
            optional.pop(name, None)
    chosen = {**required, **optional}
    window = _window(acks[0], chosen[acks[0]], theirs.get(acks[0]), reply, settings) if acks else 0
    heartbeat = _heartbeat(chosen.get(HEARTBEAT), theirs.get(HEARTBEAT))

    def final(name: str, extension: HandshakeExtension) -> HandshakeExtension:
        properties = dict(extension.properties)
        if acks[:1] == [name] and (name == BATCH_ACK or window > 1):
            is_sharp = reply.is_sharpmessaging or settings.is_sharpmessaging
            properties |= _counts(window, settings, is_sharpmessaging=is_sharp)
        elif name == HEARTBEAT:
            properties["interval"] = str(round(heartbeat * 1000))
        spelled = theirs[name].name if name in theirs else extension.name
        return HandshakeExtension(spelled, properties)

    lists = [[final(name, extension) for name, extension in each.items()] for each in (required, optional)]
    agreed = tuple(theirs.get(name, HandshakeExtension(name)) for name in chosen)
    ack_name = acks[0] if acks else ""
    agreement = Agreement(tuple(chosen), agreed, window, window, ack_name, heartbeat)
    return write_handshake(settings.identity, *lists), agreement


def _window(
    name: str, ours: HandshakeExtension, theirs: HandshakeExtension | None, reply: Handshake, settings: Settings
) -> int:
    """Return how many messages a client chooses to have unacknowledged."""
    found = theirs.window if theirs is not None else None
    if name == ACK and found is None:
        return 1
    if reply.is_sharpmessaging:
        # It leaves as many unacknowledged as it has said, whatever is chosen; and only an ack of all of them is safe.
        return found or DEFAULT_WINDOW
    return min(settings.window, found or DEFAULT_WINDOW)


def _heartbeat(ours: HandshakeExtension | None, theirs: HandshakeExtension | None) -> float:
    """Return the seconds of the side that wants fewer heartbeats."""
    return 0.0 if ours is None or theirs is None else max(ours.interval, theirs.interval)


def agreement_of(choice: Handshake, settings: Settings) -> Agreement:
    """Return what a client has chosen.

    Raises:
        PeerError: it has chosen what a server does not know, or not what that requires.
    """
    extensions = choice.extensions
    known = known_extensions(settings, is_server=True)
    check_known(extensions, known, 400)
    names = tuple(extension.canonical for extension in extensions)
    missing = [each.name for each in settings.required if each.canonical not in names]
    if missing:
        raise PeerError(412, _listing("these extensions are required: ", missing))
    ack = find_extension(extensions, BATCH_ACK) or find_extension(extensions, ACK)
    peer_window = 0
    if ack is not None:
        peer_window = ack.window or (DEFAULT_WINDOW if ack.canonical == BATCH_ACK else 1)
    beating = find_extension(extensions, HEARTBEAT)
    heartbeat = 0.0 if beating is None else beating.interval or settings.heartbeat
    window = min(peer_window, settings.window)
    return Agreement(names, extensions, window, peer_window, ack.canonical if ack else "", heartbeat)
