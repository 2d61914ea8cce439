"""Show the fields of Structs with plain types: what else is required of a value stands in its text.

A field such as ``port: Annotated[int, Meta(ge=0, le=65535)]`` is shown as ``port: int``, and a default that is made
anew for each Struct as ``...``.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

import msgspec
import sphinx.util.inspect
from sphinx.application import Sphinx


def plain(kind: object) -> object:
    """Remove the annotation from an annotated type, also inside a tuple, a mapping or a union of types."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    kinds = tuple(plain(item) for item in get_args(kind))
    if get_origin(kind) is tuple:
        return tuple[kinds]
    if get_origin(kind) in (dict, Mapping):
        return Mapping[kinds]
    return reduce(or_, kinds) if get_origin(kind) in (Union, UnionType) else kind


def shown(signature: inspect.Signature) -> inspect.Signature:
    """Return a Struct's signature as it is to be shown."""
    parameters = []
    for parameter in signature.parameters.values():
        default = parameter.default
        is_made = type(default).__module__.startswith("msgspec") and not isinstance(default, msgspec.Struct)
        kind = plain(parameter.annotation)
        parameters.append(parameter.replace(annotation=kind, default=... if is_made else default))
    return signature.replace(parameters=parameters)


def setup(app: Sphinx) -> dict[str, bool]:
    """Replace Sphinx's function for signatures."""
    signature = sphinx.util.inspect.signature

    def plain_signature(subject: Callable[..., object], *arguments: object, **named: object) -> inspect.Signature:
        found = signature(subject, *arguments, **named)  # type: ignore[arg-type]
        return shown(found) if isinstance(subject, type) and issubclass(subject, msgspec.Struct) else found

    sphinx.util.inspect.signature = plain_signature
    return {"parallel_read_safe": True, "parallel_write_safe": True}
