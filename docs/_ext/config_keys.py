"""Draw the tables of the configuration's keys from the Structs that read it, and from their docstrings."""

import re
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from inspect import getdoc

import msgspec
from amqp_tables import list_table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.app.config import Config, Log
from triomq.app.policies import PolicyConfig
from triomq.app.shapes import ListShape, ValueShape, choices_of, shape_of
from triomq.app.users import User
from triomq.core import DomainLimits
from triomq.endpoints import AMQP, EMQP, TLS, RestMS, Synchronise, Tap, WebSocket
from triomq.security import DEFAULT_LIMITS, Permission, UserLimits
from triomq.tracelog import Trace

STRUCTS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "top": (Config, ""),
    "log": (Log, "LOG_"),
    "trace": (Trace, "TRACE_"),
    "users": (User, "USERS_NAME_"),
    "permission": (Permission, "USERS_NAME_PERMISSIONS_DOMAIN_"),
    "limits": (UserLimits, "USERS_NAME_LIMITS_"),
    "amqp": (AMQP, "ENDPOINTS_0_"),
    "emqp": (EMQP, "ENDPOINTS_0_"),
    "tap": (Tap, "ENDPOINTS_0_"),
    "restms": (RestMS, "ENDPOINTS_0_"),
    "tls": (TLS, "ENDPOINTS_0_TLS_"),
    "websocket": (WebSocket, "ENDPOINTS_0_WEBSOCKET_"),
    "peers": (Synchronise, "PEERS_0_"),
    "policies": (PolicyConfig, "POLICIES_0_"),
    "domain-limits": (DomainLimits, "DOMAIN_LIMITS_DOMAIN_"),
}
"""What the directive takes, the Struct that it stands for, and how its variables go on behind ``TRIOMQ_``."""

WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", datetime: "time with its zone"}


def meanings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Read the Args of a docstring."""
    _, _, arguments = (getdoc(struct) or "").partition("Args:\n")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def allowed(kind: object) -> str:
    """Say what a key takes."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(allowed(member) for member in typing.get_args(kind) if member is not type(None))
    if choices := choices_of(kind):
        return " or ".join(f"``{choice}``" for choice in choices)
    if not isinstance(shape_of(kind), ValueShape):
        return "list" if isinstance(shape_of(kind), ListShape) else "table"
    if typing.get_origin(kind) is not typing.Annotated:
        return WORDS[typing.cast("type", kind)]
    plain, meta = typing.get_args(kind)
    bounds = [f"from {meta.ge:,}" if meta.ge is not None else "", f"to {meta.le:,}" if meta.le is not None else ""]
    return " ".join([WORDS[plain], *filter(None, bounds)])


def default(field: msgspec.structs.FieldInfo) -> str:
    """Say what holds when a key is not there."""
    made = field.default_factory is not msgspec.NODEFAULT
    value = field.default_factory() if made else field.default
    if value is msgspec.NODEFAULT:
        return "has to be there"
    if isinstance(value, msgspec.Struct):
        return "as below"
    if isinstance(value, tuple) and any(isinstance(item, msgspec.Struct) for item in value):
        return "one of AMQP, as below"
    if value in ("", {}, (), None):
        return "none"
    return f"``{msgspec.json.encode(value).decode()}``".replace('":"', '" = "').replace("{", "{ ").replace("}", " }")


def rows(struct: type[msgspec.Struct], variables: str) -> Iterator[tuple[str, ...]]:
    """Describe each key of a Struct."""
    texts = meanings(struct)
    for field in msgspec.structs.fields(struct):
        variable = f"``TRIOMQ_{variables}{field.encode_name.upper()}``"
        standard = f"``{DEFAULT_LIMITS[field.name]}``" if struct is UserLimits else default(field)
        yield f"``{field.encode_name}``", texts[field.encode_name], allowed(field.type), standard, variable


class ConfigKeys(SphinxDirective):
    """``.. config-keys:: log`` is the table of the keys in that part."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        struct, variables = STRUCTS[self.arguments[0]]
        lines = list_table(("key", "meaning", "takes", "by default", "variable"), rows(struct, variables))
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("config-keys", ConfigKeys)
    return {"parallel_read_safe": True}
