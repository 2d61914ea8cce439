"""How an endpoint speaks WebSocket, as programs and configuration files say it; it loads no WebSocket."""

from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from triomq.checked import Checked


class WebSocket(Checked, frozen=True, forbid_unknown_fields=True):
    """The WebSocket settings of an endpoint (RFC 6455).

    Args:
        path: The path that clients ask for.
        allow_origins: Pages of which origins may connect from a browser, such as ``https://example.org``; ``*`` is any.
            Programs that are no browsers name none, and may always.
        max_frame_size: Bytes of the largest frame that a client may send. Frames are passed on as they come, so that
            messages of any number of them take no memory.
    """

    path: str = "/"
    allow_origins: tuple[str, ...] = ()
    max_frame_size: Annotated[int, msgspec.Meta(ge=1024)] = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check the fields, and that origins are written as browsers name them."""
        super().__post_init__()
        if not self.path.startswith("/") or "?" in self.path:
            raise ValueError(f"path: found {self.path!r}; write what clients ask for, such as / or /amqp")
        for origin in self.allow_origins:
            if origin != "*" and not _is_origin(origin):
                raise ValueError(
                    f"allow_origins: found {origin!r}; write a scheme, a host in lower case, and the port unless it is "
                    "the usual one, such as https://example.org or http://localhost:8000; or * for any"
                )


def _is_origin(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and parts.netloc) and text == f"{parts.scheme}://{parts.netloc}".lower()
