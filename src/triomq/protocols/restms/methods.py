"""Which method does what to which resource, as one table: ``{kind: {method: action}}``.

Whether a request is in order is decided by this file alone. What is not in a row is refused with 403, where HTTP has
405: 2/RestMS lists 403 for it, and clients of 2009 test for just that. Nothing is a kind as well: 404, but a DELETE is
repeated without harm (C20). The documentation and the tests of the OpenAPI file read this table.

An asynclet is a message that has not come: deleting it would delete one that nobody has seen, so that is 404 (C21).
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from triomq.protocols.restms.problems import Problem, no_resource, pending, shown

ResourceKind: TypeAlias = Literal[
    "root",  # all domains
    "description",  # the OpenAPI file
    "domain",
    "feed",  # a dynamic one
    "configured feed",  # one that is there by configuration, or that another broker has announced
    "pipe",
    "join",
    "default join",  # which the server made
    "message",
    "asynclet",
    "content",  # staged, or of a message
    "missing",
]
MethodAction: TypeAlias = Literal[
    "read",
    "create",  # a document with one resource
    "publish",  # messages, or a content that is to be staged
    "change",  # a document with new properties
    "delete",
    "nothing",  # it is deleted already: 200
    "options",
]

_READ: Final[dict[str, MethodAction]] = {"GET": "read", "HEAD": "read", "OPTIONS": "options"}

METHODS: Final[Mapping[ResourceKind, Mapping[str, MethodAction]]] = {
    "root": _READ,
    "description": _READ,
    "domain": _READ | {"POST": "create"},
    "feed": _READ | {"POST": "publish", "PUT": "change", "DELETE": "delete"},
    "configured feed": _READ | {"POST": "publish"},
    "pipe": _READ | {"POST": "create", "PUT": "change", "DELETE": "delete"},  # PUT: C6
    "join": _READ | {"DELETE": "delete"},
    "default join": _READ,
    "message": _READ | {"DELETE": "delete"},
    "asynclet": _READ,
    "content": _READ | {"DELETE": "delete"},
    "missing": {"DELETE": "nothing", "OPTIONS": "options"},
}

SUCCESS: Final[Mapping[MethodAction, tuple[int, ...]]] = {
    "read": (200, 304),
    "create": (201, 200),  # 200 where it was there, as it was asked for
    "publish": (200, 201),  # 201 for a content that was staged
    "change": (200, 204),  # 204 for no document at all
    "delete": (200,),
    "nothing": (200,),
    "options": (204,),
}
"""With which status an action ends well; the first is the usual one."""


def action_of(method: str, kind: ResourceKind, path: str) -> MethodAction | Problem:
    """Say what a method does, or why it does nothing.

    Args:
        method: As the request line has it; methods are told apart by case.
        kind: Of the resource that is there.
        path: Where it is, for the text.
    """
    row = METHODS[kind]
    if method in row:
        return row[method]
    if kind == "missing":
        return no_resource(path)
    if kind == "asynclet" and method == "DELETE":
        return pending(path)
    allowed = ", ".join(row)
    if kind == "default join":
        text = f"{path} is the default join of its pipe, which the server made; it ends with the pipe; DELETE that"
        return Problem("default-join", text, {"allow": allowed})
    if kind == "configured feed" and method in METHODS["feed"]:
        text = f"{path} is there by configuration, or by another broker's word; {method} is for its owner; post to it"
        return Problem("configured", text, {"allow": allowed})
    text = f"{shown(method)} is nothing that can be done to a {kind}; it takes {allowed}; use one of these"
    return Problem("method", text, {"allow": allowed})
