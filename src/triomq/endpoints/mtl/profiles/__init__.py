"""The profiles that come with triomq."""

from collections.abc import Mapping
from typing import Final

from triomq.endpoints.mtl.profile import ResourceProfile
from triomq.endpoints.mtl.profiles.amqp import ExchangesProfile
from triomq.endpoints.mtl.profiles.fanout import FanoutProfile
from triomq.endpoints.mtl.profiles.queue import QueueProfile
from triomq.endpoints.mtl.profiles.restms import FeedsProfile

BUILT_IN: Final[Mapping[str, type[ResourceProfile]]] = {
    kind.name: kind for kind in (FanoutProfile, QueueProfile, FeedsProfile, ExchangesProfile)
}
"""All of them, by name."""
