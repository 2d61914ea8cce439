"""The two brokers, with the same users."""

import contextlib
from collections.abc import Iterator, Mapping

from ..rabbitmq import open_rabbitmq
from ..served import open_served
from .questions.rights import definitions


@contextlib.contextmanager
def open_ours() -> Iterator[Mapping[str, str]]:
    """Run `triomq serve`; its URLs by place."""
    with open_served() as served:
        yield {"plain": served.url}


@contextlib.contextmanager
def open_theirs() -> Iterator[Mapping[str, str]]:
    """Run RabbitMQ; its URLs by place."""
    with open_rabbitmq(definitions()) as url:
        yield {"plain": url}
