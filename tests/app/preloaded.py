"""A web application that embeds a broker, for a server that loads it before it forks (``gunicorn --preload``)."""

import os
from collections.abc import Callable, Iterable

from triomq import AMQP, EMQP, Jobs, open_blocking_broker
from triomq.clients import open_blocking
from triomq.protocols import BasicProperties

URL = f"amqp://guest:guest@127.0.0.1:{os.environ['AMQP_PORT']}/"

opened = open_blocking_broker(AMQP(port=int(os.environ["AMQP_PORT"])), EMQP(port=0), data_dir=os.environ["DATA"])
broker = opened.__enter__()  # for as long as the process lives
broker.declare_queue("q", durable=True)
jobs = Jobs()


@jobs.job
def nothing() -> None: ...


jobs.connect_when_needed(f"emqp://127.0.0.1:{broker.listening[1].port}")
nothing.blocking.send()


def app(environ: dict[str, object], start: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    """Publish by a connection of this process's own, and send a job."""
    with open_blocking(URL) as connection:
        connection.publish("", "q", b"from a worker", BasicProperties(delivery_mode=2))
    nothing.blocking.send()
    try:
        broker.publish("", "q", b"")
    except RuntimeError as error:
        said = str(error)
    start("200 OK", [("Content-Type", "text/plain")])
    return [said.encode()]
