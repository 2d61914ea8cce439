"""Which types of endpoints a configuration can name: the built-in ones, and those that installed packages bring.

A package brings a type by an entry point of the group ``triomq.endpoints``, whose name is the tag of the Struct that it
leads to::

    [project.entry-points."triomq.endpoints"]
    lines = "triomq_lines:Lines"

Installed packages are looked at only when a type is asked for that is not built in, or when all types are: a search
takes some milliseconds, and a broker that needs no such package is not to wait for it, or to fail with it.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import msgspec

from triomq.endpoints.amqp.endpoint import AMQP
from triomq.endpoints.base.endpoint_config import EndpointConfig
from triomq.endpoints.direct import DirectProtocol
from triomq.endpoints.dmp.connection import DMP
from triomq.endpoints.emqp.config import EMQP
from triomq.endpoints.micromsg.config import MicroMsg
from triomq.endpoints.mtl.config import MTL
from triomq.endpoints.restms.config import RestMS
from triomq.endpoints.tap.config import Tap
from triomq.errors import ConfigError

GROUP: Final = "triomq.endpoints"
"""The entry points of packages."""

DEFAULT_ENDPOINTS: Final[tuple[EndpointConfig, ...]] = (AMQP(),)
"""What a broker on its own listens for without a configuration."""

DEFAULT_TYPE: Final = "amqp"
"""The type of an endpoint that is there without being configured, but for its port on the command line."""

DEFAULT_DIRECT: Final[DirectProtocol] = DMP
"""What direct connections speak, on the port of whichever endpoint has them."""

_BUILT_IN: Final[Mapping[str, type[EndpointConfig]]] = {
    "amqp": AMQP,
    "emqp": EMQP,
    "tap": Tap,
    "restms": RestMS,
    "mtl": MTL,
    "micromsg": MicroMsg,
}


class EndpointTypes(Mapping[str, type[EndpointConfig]]):
    """The Structs of all types of endpoints by their tags; has no state, so that everybody may make one.

    Iterating imports no package, looking a type up imports one.
    """

    built_in: Final = tuple(_BUILT_IN.values())
    """The types that come with triomq."""

    def __getitem__(self, tag: str) -> type[EndpointConfig]:
        """Return the Struct of a type.

        Raises:
            KeyError: There is no such type.
            ConfigError: The package that brings it cannot be imported, or brings something else.
        """
        if tag in _BUILT_IN:
            return _BUILT_IN[tag]
        for point in entry_points(group=GROUP, name=tag):
            return _load(point)
        raise KeyError(tag)

    def __contains__(self, tag: object) -> bool:
        """Return whether there is such a type, without importing it."""
        return isinstance(tag, str) and (tag in _BUILT_IN or bool(entry_points(group=GROUP, name=tag)))

    def __iter__(self) -> Iterator[str]:
        """List the tags, the built-in ones first."""
        return iter(dict.fromkeys((*_BUILT_IN, *sorted(entry_points(group=GROUP).names))))

    def __len__(self) -> int:
        """Count the types."""
        return len(list(iter(self)))


def decode_endpoint(kind: type, data: object) -> object:
    """Return the configuration that a table of a file means, a ``dec_hook`` of msgspec; data for all else as it is.

    Raises:
        ValueError: It is no table, its type is unknown, or it does not fit the type.
    """
    if kind is not EndpointConfig or isinstance(data, EndpointConfig):
        return data
    if not isinstance(data, dict):
        raise ValueError(f"Expected `object`, got `{type(data).__name__}`")
    return msgspec.convert(data, EndpointTypes()[data["type"]])


def _load(point: EntryPoint) -> type[EndpointConfig]:
    package = f"the package {point.dist.name!r}" if point.dist is not None else "a package"
    try:
        found = point.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        raise ConfigError(
            f"the type {point.name!r} comes from {package}, whose {point.value!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    fits = isinstance(found, type) and issubclass(found, EndpointConfig) and issubclass(found, msgspec.Struct)
    if not fits or found.__struct_config__.tag != point.name:
        raise ConfigError(
            f"the type {point.name!r} comes from {package}, whose {point.value!r} is {found!r}; it must be a "
            f"Struct with the base EndpointConfig and tag={point.name!r}"
        )
    kind: type[EndpointConfig] = found
    return kind
