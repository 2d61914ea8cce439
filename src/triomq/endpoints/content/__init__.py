"""What messages look like inside the broker when they come over AMQP or a protocol of its family.

Their properties stay in the form of an AMQP content header until they are decoded on demand; what several endpoints
read, check or change in them is here, so that no endpoint has to know another. Whatever is not acceptable is refused
as ``InvalidProperties``, for which each endpoint has its own code.
"""

from triomq.endpoints.content.claims import CHECKED, LOOKED_INTO, check_claims, check_expiration, suspects
from triomq.endpoints.content.heads import (
    HAS_DELIVERY_MODE,
    HAS_EXPIRATION,
    HAS_HEADERS,
    HAS_PRIORITY,
    HAS_REPLY_TO,
    HAS_USER_ID,
    UnframedShape,
    head_of,
)
from triomq.endpoints.content.modes import by_mode, is_persistent
from triomq.endpoints.content.properties import (
    AMQP_CODEC,
    InvalidProperties,
    amend_amqp,
    from_amqp,
    from_basic,
    headers_of,
    plain_value,
    sayable,
    to_amqp,
    to_basic,
    type_name,
)
from triomq.endpoints.content.reply_to import REPLY_TO, is_reply_queue, with_reply_name, without_secret
from triomq.endpoints.content.sender_selected import CC, Copies, copies_of

__all__ = [
    "AMQP_CODEC",
    "CC",
    "CHECKED",
    "HAS_DELIVERY_MODE",
    "HAS_EXPIRATION",
    "HAS_HEADERS",
    "HAS_PRIORITY",
    "HAS_REPLY_TO",
    "HAS_USER_ID",
    "LOOKED_INTO",
    "REPLY_TO",
    "Copies",
    "InvalidProperties",
    "UnframedShape",
    "amend_amqp",
    "by_mode",
    "check_claims",
    "check_expiration",
    "copies_of",
    "from_amqp",
    "from_basic",
    "head_of",
    "headers_of",
    "is_persistent",
    "is_reply_queue",
    "plain_value",
    "sayable",
    "suspects",
    "to_amqp",
    "to_basic",
    "type_name",
    "with_reply_name",
    "without_secret",
]
