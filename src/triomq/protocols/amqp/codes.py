"""Reply codes of AMQP 0-9-1 (section 1.2 of the reference) and the failure that carries one inside the engine."""

from triomq.errors import RemoteProtocolError

REPLY_NAMES = {
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}

# A failure quotes at most so many octets, so that with them the reason fits into the 255 of a short string.
SHOWN_OCTETS = 40


class PeerError(RemoteProtocolError):
    """The peer broke a rule; raised by the parts of the engine and caught by the engine, never seen outside it."""

    def __init__(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = close_text(code, text)
        self.class_id = class_id
        self.method_id = method_id


def close_text(code: int, text: str) -> str:
    """Put the name of the code before the text, for clients match it, and cut it to what a short string holds."""
    name = REPLY_NAMES.get(code)
    if name is not None and not text.startswith(name):
        text = f"{name} - {text}" if text else name
    octets = text.encode("utf-8", "surrogateescape")
    return text if len(octets) <= 255 else octets[:255].decode("utf-8", "ignore")


def show_octets(data: bytes) -> str:
    """Write octets as RabbitMQ's texts do: ``<<"text">>``, or ``<<0,60,0,10>>``; only so many as fit into a text."""
    shown = data[:SHOWN_OCTETS]
    more = "..." if len(data) > SHOWN_OCTETS else ""
    if shown and all(32 <= octet < 127 for octet in shown):
        return f'<<"{shown.decode("ascii")}{more}">>'
    return f"<<{','.join(map(str, shown))}{more}>>"
