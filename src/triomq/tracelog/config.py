"""What is traced, and where the files are: the section ``trace`` of a broker's configuration."""

import re
import socket
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Annotated

import msgspec

from triomq.checked import Checked
from triomq.errors import ConfigError

_Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]

_NODE = re.compile(r"[A-Za-z0-9._]+")


class Trace(Checked, frozen=True, forbid_unknown_fields=True):
    """What is traced, and where the files are.

    Args:
        directory: The folder of the trace log, from the folder of the configuration, created if it is not there;
            without it nothing is traced.
        rate: Which part of the messages of a queue is traced, from 0 to 1: 0.01 is one in a hundred. A message whose
            header ``traceparent`` says that it is sampled is always traced, and one whose header says that it is not,
            never.
        queues: Other rates, by the names of queues, as shells write patterns: ``{"orders.*" = 1, "*" = 0}``. The first
            that fits counts.
        node: The name of this broker in the log, of letters, digits, ``.`` and ``_``; the machine's by default.
    """

    directory: str = ""
    rate: _Rate = 1.0
    queues: Mapping[str, float] = msgspec.field(default_factory=dict)
    node: str = ""

    def __post_init__(self) -> None:
        """Check the fields; the name of the node becomes part of the names of files."""
        super().__post_init__()
        for pattern, rate in self.queues.items():
            if not 0 <= rate <= 1:
                raise ConfigError(f"queues.{pattern}: found {rate}; a rate is from 0 to 1")
        if self.node and not _NODE.fullmatch(self.node):
            raise ConfigError(f"node: found {self.node!r}; it may have letters, digits, '.' and '_'")

    def rate_of(self, queue: str) -> float:
        """Return which part of a queue's messages is traced."""
        for pattern, rate in self.queues.items():
            if fnmatchcase(queue, pattern):
                return rate
        return self.rate

    @property
    def node_name(self) -> str:
        """The name of this broker in the log."""
        return self.node or re.sub(r"[^A-Za-z0-9._]", "_", socket.gethostname()) or "node"


def require_pyarrow() -> None:
    """Raise how to install what the trace log's process needs.

    Raises:
        ConfigError: It is not here.
    """
    if find_spec("pyarrow") is None:
        raise ConfigError("trace.directory: the trace log needs PyArrow; pip install 'triomq[trace]'")
