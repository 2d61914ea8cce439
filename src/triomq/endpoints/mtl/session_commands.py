"""What a control session asks for once it is logged in: a profile, leases, and the profile's own commands.

Each function returns whether the command is answered by now. What raises ``Restarting`` or ``PublishingPaused`` is
called again, so nothing is changed before that may come.
"""

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from triomq.endpoints.mtl.leases import LeaseTerms
from triomq.endpoints.mtl.profile import BadRequest, ResourceProfile
from triomq.protocols.mtl import CommandReceived, DataLeaseAsked, LeaseReleased, ProfileChosen

if TYPE_CHECKING:
    from triomq.endpoints.mtl.control_peer import MTLControlPeer

_MOST_DESCRIBED: Final = 1_000
"""Resources of one direction that Profile.Describe lists."""

_DESCRIBE: Final = "profile.describe"


def choose_profile(peer: "MTLControlPeer", event: ProfileChosen) -> bool:
    """Choose a profile, and make what it needs."""
    profile = peer.hub.profiles[event.profile.lower()]
    profile.prepare(peer)
    peer.profile = profile
    return peer.answer_when_safe({})


def ask_lease(peer: "MTLControlPeer", event: DataLeaseAsked) -> bool:
    """Grant a lease, or the one that the client had, whose flow ends then."""
    profile = _profile_of(peer)
    offered = profile.reader_confirms if event.direction == "reader" else profile.writer_confirms
    if event.confirm not in offered:
        peer.engine.refuse(501, f"profile {profile.name!r} does not confirm this way; it offers {sorted(offered)}")
        return True
    peer.system.turn.charge(len(event.resources))
    require = profile.require_reader if event.direction == "reader" else profile.require_writer
    for resource in event.resources:
        require(peer, resource)
    terms = LeaseTerms(
        peer.session.user,
        peer.connection.user,
        peer.asked_host,
        profile,
        event,
        event.prefetch or peer.hub.config.prefetch,
    )
    leases = peer.hub.leases
    lease = leases.find(event.lease) if event.lease else None
    if lease is None or not lease.terms.are_those_of(terms):
        lease = leases.grant(terms, peer.session, peer.directory)
    elif lease.flow is not None:
        lease.flow.lose_lease("its client has asked for its lease anew")
    peer.engine.grant_lease(lease.token, peer.hub.data_port)
    return True


def release_lease(peer: "MTLControlPeer", event: LeaseReleased) -> bool:
    """End a lease, if it is one of the same user's."""
    lease = peer.hub.leases.find(event.lease)
    if lease is not None and (lease.terms.user, lease.terms.virtual_host) == (peer.session.user, peer.asked_host):
        peer.hub.leases.end(lease, "its client has released it")
    peer.engine.done()
    return True


def call_profile(peer: "MTLControlPeer", event: CommandReceived) -> bool:
    """Do a command of the profile, and answer when what it has recorded is on disk."""
    profile = _profile_of(peer)
    command = profile.commands.get(event.command)
    if command is None:
        if event.command == _DESCRIBE:
            peer.done(_described(peer, profile))
        else:
            peer.engine.refuse(501, f"profile {profile.name!r} has no such command; Profile.Describe lists them")
        return True
    try:
        arguments = msgspec.convert(event.arguments, command.arguments)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{command.name}: {error}") from None
    return peer.answer_when_safe(command.call(profile, peer, arguments))


def _profile_of(peer: "MTLControlPeer") -> ResourceProfile:
    assert peer.profile is not None  # the engine lets nobody ask before
    return peer.profile


def _described(peer: "MTLControlPeer", profile: ResourceProfile) -> dict[str, object]:
    """Return what a program can find out about the profile that it has chosen."""
    return {
        "profile": profile.name,
        "commands": sorted(command.name for command in profile.commands.values()),
        "readers": {
            "confirm": sorted(profile.reader_confirms),
            "resources": list(islice(profile.resources(peer, reading=True), _MOST_DESCRIBED)),
        },
        "writers": {
            "confirm": sorted(profile.writer_confirms),
            "resources": list(islice(profile.resources(peer, reading=False), _MOST_DESCRIBED)),
        },
    }
