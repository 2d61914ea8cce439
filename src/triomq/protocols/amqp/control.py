"""An extension class of our own, number 61502: looking into a broker over an ordinary channel.

AMQP can publish, get and purge; it cannot list queues, read a message and leave it where it is, or show what runs.
This class asks such things: one method with an operation's name and its arguments, one method with the result, both
JSON. What the operations are stands in ``triomq.protocols.control``; here they are octets.

A server that knows the class has the capability ``triomq.control``; one that does not closes the connection with
540 when it is asked (section 1.2), so a client looks at the capability first. Numbers from 61440 on are for extensions
(section 4.2.4).
"""

from triomq.protocols.amqp.codec import MethodTable
from triomq.protocols.amqp.direct import DIRECT_METHODS
from triomq.protocols.amqp.methods import METHODS, LongString, Method, Row, ShortString
from triomq.protocols.amqp.restms import RESTMS_METHODS

CONTROL_CAPABILITY = "triomq.control"
"""The capability, among the server-properties, of a server that answers control.request."""


class ControlRequest(Method, frozen=True, gc=False):
    """Ask the server for something that AMQP has no words for."""

    operation: ShortString
    arguments: LongString = b"{}"


class ControlResponse(Method, frozen=True, gc=False):
    """The answer; it fits into one frame, so what is long comes in pages."""

    result: LongString


CONTROL_METHODS: tuple[Row, ...] = (
    Row(ControlRequest, 61502, 10, "client", "control.request", ("control.response",)),
    Row(ControlResponse, 61502, 11, "server", "control.response"),
)

BROKER_METHODS = MethodTable((*METHODS, *DIRECT_METHODS, *RESTMS_METHODS, *CONTROL_METHODS))
"""Every method that a triomq broker and its own clients speak."""

INDIRECT_METHODS = MethodTable((*METHODS, *RESTMS_METHODS, *CONTROL_METHODS))
"""The same for a broker that has no direct connections."""
