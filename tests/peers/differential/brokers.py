"""The two brokers, with the same users and policies, by the same file of definitions."""

import base64
import contextlib
import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..rabbitmq import open_rabbitmq
from ..served import open_served
from .questions.policies import POLICIES
from .questions.rights import TAGS, USERS


@contextlib.contextmanager
def open_ours(**settings: str) -> Iterator[str]:
    """Run `triomq serve`, with further settings as environment variables have them; its URL."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "definitions.json")
        file.write_text(json.dumps(_definitions()), encoding="utf-8")
        with open_served(definitions=str(file), **settings) as served:
            # It says NAME and PASSWORD, for it has several users.
            yield re.sub("//[^@]*@", "//guest:guest@", served.url)


@contextlib.contextmanager
def open_theirs() -> Iterator[str]:
    """Run RabbitMQ; its URL."""
    with open_rabbitmq(_definitions()) as url:
        yield url


def _definitions() -> dict[str, object]:
    return {
        "users": [
            {
                "name": name,
                "password_hash": _hash(name),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ",".join(TAGS.get(name, [])),
            }
            for name in USERS
        ],
        "vhosts": [{"name": "/"}],
        "permissions": [
            {"user": name, "vhost": "/", "configure": patterns[0], "write": patterns[1], "read": patterns[2]}
            for name, patterns in USERS.items()
            if patterns is not None
        ],
        "policies": [
            {"vhost": "/", "name": name, "pattern": f"^policy.{name}", "priority": 0, **policy}
            for name, policy in POLICIES.items()
        ],
        "queues": [],
        "exchanges": [],
        "bindings": [],
        "parameters": [],
    }


def _hash(password: str) -> str:
    """Hash a password as RabbitMQ does; the salt is not worth hiding here."""
    salt = b"salt"
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
