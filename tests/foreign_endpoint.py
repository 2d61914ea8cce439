"""A package that brings an endpoint, installed into a folder as pip would do it; it sends back in capitals."""

from pathlib import Path

MODULE = """
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from triomq.checked import Checked
from triomq.core import Properties, SinkKind
from triomq.endpoints import BrokerContext, Client, Codec, Endpoint, EndpointConfig, StreamListener
from triomq.transports import Transport


class Line(Client):
    def __init__(self, transport: Transport, context: BrokerContext) -> None:
        super().__init__(context, transport.peer)
        self.transport = transport

    def started(self) -> None:
        self.transport.start(self)

    def received(self, data: bytes) -> None:
        if data:
            self.transport.send_nowait([data.upper()])
        else:
            self.leave()

    def drained(self) -> None:
        pass

    def released(self) -> None:
        self.transport.close()


class LineEndpoint(Endpoint):
    def __init__(self, config: "Lines", context: BrokerContext) -> None:
        listener = StreamListener(lambda transport: Line(transport, context), config.host, config.port)
        super().__init__(context, listener)


class Lines(Checked, EndpointConfig, frozen=True, forbid_unknown_fields=True, tag="lines"):
    protocol: ClassVar[str] = "lines of text"
    codecs: ClassVar[tuple[Codec, ...]] = (
        Codec(77, lambda encoded: Properties(app_id=encoded.decode()), lambda encoded, headers, **how: (encoded, 0)),
    )
    standard_sinks: ClassVar[Mapping[str, SinkKind]] = {"lines": SinkKind.FANOUT}

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 7000
    depth: int = 1

    @property
    def name(self) -> str:
        return f"lines-{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host,)

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    def bound_to(self, port: int) -> "Lines":
        return msgspec.structs.replace(self, port=port)

    def make(self, broker: BrokerContext) -> LineEndpoint:
        return LineEndpoint(self, broker)
"""


def install(folder: Path, *, module: str = MODULE, leads_to: str = "triomq_lines:Lines", tag: str = "lines") -> Path:
    """Write the package and its metadata into a folder, which is to be on Python's path."""
    (folder / "triomq_lines.py").write_text(module, encoding="utf-8")
    metadata = folder / "triomq_lines-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: triomq-lines\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[triomq.endpoints]\n{tag} = {leads_to}\n", encoding="utf-8")
    return folder
