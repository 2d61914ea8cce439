"""The two brokers, with the same users."""

import contextlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..rabbitmq import open_rabbitmq
from ..served import open_served
from .questions.rights import TAGS, USERS


@contextlib.contextmanager
def open_ours() -> Iterator[str]:
    """Run `triomq serve`; its URL."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "triomq.toml")
        config.write_text(_configuration(), encoding="utf-8")
        with open_served(str(config)) as served:
            # It says NAME and PASSWORD, for it has several users.
            yield re.sub("//[^@]*@", "//guest:guest@", served.url)


def _configuration() -> str:
    """Write the users as a configuration has them."""
    lines: list[str] = []
    for name, patterns in USERS.items():
        lines += [f"[users.{name}]", f'password = "{name}"', f"tags = {json.dumps(TAGS.get(name, []))}"]
        if patterns is None:
            lines += [f"[users.{name}.permissions]"]
        else:
            lines += [f'[users.{name}.permissions."*"]']
            kinds = zip(("configure", "write", "read"), patterns, strict=True)
            lines += [f"{kind} = {json.dumps(pattern)}" for kind, pattern in kinds]
    return "\n".join(lines)


def _definitions() -> dict[str, object]:
    """Write the users as RabbitMQ's definitions have them."""
    return {
        "users": [{"name": name, "password": name, "tags": ",".join(TAGS.get(name, []))} for name in USERS],
        "vhosts": [{"name": "/"}],
        "permissions": [
            {"user": name, "vhost": "/", "configure": patterns[0], "write": patterns[1], "read": patterns[2]}
            for name, patterns in USERS.items()
            if patterns is not None
        ],
        "queues": [],
        "exchanges": [],
        "bindings": [],
        "policies": [],
        "parameters": [],
    }


@contextlib.contextmanager
def open_theirs() -> Iterator[str]:
    """Run RabbitMQ; its URL."""
    with open_rabbitmq(_definitions()) as url:
        yield url
