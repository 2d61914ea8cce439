"""pika's callback connection: everything in flight at once, nothing waited for in between."""

import pika
import pytest
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel
from pika.frame import Method
from pika.spec import Basic

MESSAGES = 2_000


class Session:
    """Publishes with confirms and consumes on one channel, and stops when everything has come both ways."""

    def __init__(self, url: str, *, prefetch: int, ack_every: int) -> None:
        self.bodies: list[bytes] = []
        self.confirmed = 0
        self.nacked = 0
        self.failure: object = None
        self._prefetch = prefetch
        self._ack_every = ack_every
        self._queue = ""
        self._connection = SelectConnection(
            pika.URLParameters(url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._on_channel),
            on_open_error_callback=lambda _, error: self._fail(error),
            on_close_callback=lambda *_: self._connection.ioloop.stop(),
        )

    def run(self) -> None:
        self._connection.ioloop.call_later(60, lambda: self._fail("not finished within 60 s"))
        self._connection.ioloop.start()
        self._connection.ioloop.close()  # its waker is a pair of sockets
        assert self.failure is None, self.failure

    def _fail(self, reason: object) -> None:
        self.failure = reason
        self._connection.ioloop.stop()

    def _on_channel(self, channel: Channel) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda _, reason: self._finished() or self._fail(reason))
        channel.confirm_delivery(self._on_confirm)
        channel.basic_qos(prefetch_count=self._prefetch)
        channel.queue_declare("", exclusive=True, callback=self._on_queue)

    def _on_queue(self, frame: Method) -> None:
        self._queue = frame.method.queue
        self._channel.basic_consume(self._queue, self._on_message, callback=self._on_consuming)

    def _on_consuming(self, _: Method) -> None:
        for number in range(MESSAGES):
            self._channel.basic_publish("", self._queue, str(number).encode(), mandatory=True)

    def _on_confirm(self, frame: Method) -> None:
        tag = frame.method.delivery_tag
        if isinstance(frame.method, Basic.Nack):
            self.nacked += 1
        # Confirms of one queue come in order, so the highest tag tells how many came.
        self.confirmed = max(self.confirmed, tag)
        self._finish_when_complete()

    def _on_message(self, channel: Channel, method: Basic.Deliver, _: pika.BasicProperties, body: bytes) -> None:
        self.bodies.append(body)
        if len(self.bodies) % self._ack_every == 0:
            channel.basic_ack(method.delivery_tag, multiple=self._ack_every > 1)
        self._finish_when_complete()

    def _finished(self) -> bool:
        return self.confirmed == MESSAGES and len(self.bodies) == MESSAGES

    def _finish_when_complete(self) -> None:
        if self._finished() and self._connection.is_open:
            self._connection.close()


@pytest.mark.parametrize(("prefetch", "ack_every"), [(300, 100), (1, 1), (0, 1000)])
def test_channel_publishes_and_consumes_at_once(broker_url: str, prefetch: int, ack_every: int) -> None:
    session = Session(broker_url, prefetch=prefetch, ack_every=ack_every)
    session.run()
    assert session.nacked == 0
    assert session.bodies == [str(number).encode() for number in range(MESSAGES)]
