"""Codes of replies, and the reasons why a message is dropped without one."""

from typing import Final, Literal, TypeAlias

STATUSES: Final = {
    200: "OK",
    201: "Ready",
    202: "Data Lease",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Challenged",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Too Large",
    500: "Internal Error",
    501: "Not implemented",  # as the specification spells it
    503: "Overloaded",
    505: "Version Not Supported",
}
"""What each code is called in a reply. It is for people: a program looks at the code alone."""

FaultReason: TypeAlias = Literal[
    "frames",  # the wrong number of them
    "envelope",  # more than eight frames before the message
    "name",  # of a command: empty, too long, or not ASCII
    "json",  # the body is no JSON object
    "too-long",  # the JSON is
    "too-many",  # commands that wait for an answer to an earlier one
    "code",  # of a reply: not three digits
    "late",  # a reply to a request that was given up, or to none
    "header",  # empty, too short for its fields, or longer than they are
    "type",  # no data command has this number
    "text",  # a short string with control characters, or not in UTF-8
    "boolean",  # neither 0 nor 1
    "table",  # no field table, or a name in it is empty, or it nests too deep
    "sequence",  # a Content's is 0
    "unasked",  # well formed, and nothing that this side of the flow is to be sent, so that nobody waits for an answer
]
"""Why a message is dropped (11/MTL, control and data flow error handling)."""

FAULT_REASONS: Final[dict[FaultReason, str]] = {
    "frames": "the wrong number of frames",
    "envelope": "more than eight frames before the message",
    "name": "a command's name that is empty, longer than 255 octets, or not ASCII",
    "json": "a body that is no JSON object, or nests deeper than 32 levels",
    "too-long": "a body longer than allowed",
    "too-many": "a command while too many wait for an answer",
    "code": "a reply whose code is not three digits",
    "late": "a reply to a request that was given up, or to none",
    "header": "a header that is empty, too short for its fields, or longer than they are",
    "type": "a data command of no known type",
    "text": "a short string with control characters, or not in UTF-8",
    "boolean": "a boolean that is neither 0 nor 1",
    "table": "no field table, or one with an empty name, or deeper than 16 levels",
    "sequence": "a Content with the sequence 0",
    "unasked": "a data command that this side of the flow is never sent, or a Confirm of what is not confirmed",
}
"""What each reason means."""
