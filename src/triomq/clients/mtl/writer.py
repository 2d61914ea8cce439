"""A writer: contents into resources of a broker, confirmed or not.

    publish ──▶ _given ──▶ _prepare ──▶ engine: numbers ──▶ _unconfirmed ──▶ Confirm: done; Reject: refused
                                                                │
                              the flow is lost ──▶ sent again, under the same numbers

With confirms a content is done when the broker has it safely. Without, what is sent when the connection breaks may be
lost; what the broker refuses comes back as a Response, and is raised by the next call.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import trio

from triomq.clients.amqp.confirms import ConfirmReceiver, PendingConfirm
from triomq.clients.amqp.pipeline import check_body, check_properties
from triomq.clients.mtl.control import ControlFlow
from triomq.clients.mtl.flow import MOST_OUTGOING, ClientFlow
from triomq.clients.publish_window import PublishWindow
from triomq.errors import Disconnected, LimitExceeded, LocalProtocolError, Refused, TriomqError
from triomq.protocols import BasicProperties
from triomq.protocols.mtl import (
    ConfirmModel,
    ConfirmRun,
    ContentProperties,
    ContentsRejected,
    MTLDataClient,
    ResponseReceived,
    content_suffix,
    encode_content,
)

_FEW: Final = 100
"""Contents without confirms after which other tasks get their turn, however small they are."""

_Given: TypeAlias = tuple[ConfirmReceiver, bytes, bytes]
"""Receiver of the outcome, what stands behind the sequence in the header, body: enough to send it again."""


class _Nobody:
    """Receives the outcome of contents that are not confirmed."""

    abandoned = False

    def confirmed(self, size: int) -> None:
        pass

    def failed(self, size: int, error: TriomqError) -> None:
        pass


_NOBODY: Final = _Nobody()


class MTLWriter(ClientFlow):
    """Made by ``MTLConnection.open_writer``, ends with its block. Several tasks may use it.

    When the connection is lost it comes back by itself, and what was not confirmed is sent again: a broker of ours
    knows what of that it has already, unless it was restarted meanwhile.
    """

    direction = "writer"

    def __init__(self, control: ControlFlow, resources: Sequence[str], confirm: ConfirmModel) -> None:
        super().__init__(control, resources, confirm)
        self._given: list[_Given] = []
        self._unconfirmed: dict[int, _Given] = {}
        self._refused: TriomqError | None = None
        self._few = _FEW
        self._encoded: tuple[str, str, BasicProperties | None, bytes] = ("", "", None, b"")

    @property
    def outstanding(self) -> int:
        """How many contents are sent, or wait to be, and are not confirmed."""
        return len(self._given) + len(self._unconfirmed)

    async def publish(
        self, body: bytes, address: str = "", properties: BasicProperties | None = None, *, resource: str = ""
    ) -> None:
        """Publish one content.

        With confirms it returns when the broker has it: in its queues, and on disk where they are durable and it is
        persistent. Without, it returns when the content is on its way; leaving the block waits until the broker has
        read all of them.

        Args:
            body: Its body.
            address: What the resource routes by, if it does.
            properties: Its properties; ``delivery_mode`` 2 makes it persistent.
            resource: Into which one, if the writer has several.

        Raises:
            LimitExceeded: The broker has no room, for the moment.
            Refused: The broker does not take it: no queue does, or it is too large, or the user may not.
            LocalProtocolError: It cannot be sent, or the block is left.
            Disconnected: The broker is gone for good; it may have arrived or not.
        """
        suffix = self.suffix_of(body, address, properties, resource)
        await self._wait_room()
        if self.confirms == "full":
            confirm = PendingConfirm()
            self._give((confirm, suffix, body))
            await confirm.wait()
            return
        self._give((_NOBODY, suffix, body))
        self._few -= 1
        if not self._few:
            self._few = _FEW
            self.flush()
            await trio.lowlevel.checkpoint()

    @asynccontextmanager
    async def open_pipeline(self, *, limit: int = 1000) -> "AsyncIterator[MTLPipeline]":
        """Publish many contents without waiting for each; leaving the block waits until all of them are confirmed.

        An error in the block leaves at once, and what is on its way may or may not arrive.

        Args:
            limit: How many contents may be on their way at once.

        Raises:
            LocalProtocolError: The writer has no confirms: then ``publish`` does not wait anyway.
            Refused: As ``publish`` does, about any of them.
        """
        if self.confirms != "full":
            raise LocalProtocolError(
                "a pipeline waits for confirms, and this writer has none; open it with confirm='full', or just publish"
            )
        pipeline = MTLPipeline(self, limit)
        yield pipeline
        await pipeline.wait_confirmed()

    async def put(self, receiver: ConfirmReceiver, suffix: bytes, body: bytes) -> None:
        """Give a content of which a receiver hears what becomes; for pipelines."""
        if self._is_full or self._error is not None:
            await self._wait_room()
        self._give((receiver, suffix, body))

    def suffix_of(self, body: bytes, address: str, properties: BasicProperties | None, resource: str) -> bytes:
        """Encode what stands before a body; the last one is remembered, since writers repeat them."""
        if type(body) is not bytes:
            check_body(body)
        last = self._encoded
        if properties is last[2] and address == last[1] and resource == last[0] and last[3]:
            return last[3]
        if properties is not None:
            check_properties(properties)
        if self.resources and resource not in self.resources and (resource or len(self.resources) > 1):
            raise LocalProtocolError(
                f"the writer has the resources {', '.join(map(repr, self.resources))}, and not {resource!r}"
            )
        if not self.resources and not resource:
            raise LocalProtocolError("the writer is for all resources; say which with resource=")
        basic = BasicProperties() if properties is None else properties
        suffix = content_suffix(resource, encode_content(ContentProperties(basic=basic, address=address or None)))
        if properties is None or properties.headers is None:  # a dict may have changed when it comes again
            self._encoded = (resource, address, properties, suffix)
        return suffix

    def _give(self, content: _Given) -> None:
        self._given.append(content)
        if not self._flush_due:
            self.flush_soon()

    @property
    def _is_full(self) -> bool:
        return len(self._given) >= MOST_OUTGOING

    async def _wait_room(self) -> None:
        self._check()
        if self._refused is not None:
            refused, self._refused = self._refused, None
            raise refused
        while self._is_full:
            await self._changed.park()
            self._check()

    # What the flow calls

    async def _begin(self, engine: MTLDataClient) -> None:
        again = [
            (number, suffix, body)
            for number, (receiver, suffix, body) in self._unconfirmed.items()
            if not receiver.abandoned
        ]
        self._unconfirmed = {number: self._unconfirmed[number] for number, _, _ in again}
        engine.send_again(again)
        self.flush()
        await trio.lowlevel.checkpoint()

    def _prepare(self, engine: MTLDataClient) -> None:
        given, self._given = self._given, []
        if self.confirms == "full":
            given = [content for content in given if not content[0].abandoned]
        if given:
            first = engine.send_each([content[1] for content in given], [content[2] for content in given])
            if self.confirms == "full":
                self._unconfirmed.update(enumerate(given, first))

    def _take_event(self, event: object) -> None:
        match event:
            case ConfirmRun():
                self._take_confirms(event)
            case ContentsRejected():
                self._take_rejected(event)
            case ResponseReceived():
                self._take_refused(event)

    def _take_confirms(self, run: ConfirmRun) -> None:
        unconfirmed = self._unconfirmed
        for number in (*self._until(run.up_to), *run.sequences):
            content = unconfirmed.pop(number, None)
            if content is not None:
                content[0].confirmed(len(content[2]))

    def _take_rejected(self, event: ContentsRejected) -> None:
        numbers = self._until(event.sequence) if event.multiple else [event.sequence]
        for number in numbers:
            content = self._unconfirmed.pop(number, None)
            if content is not None:
                content[0].failed(len(content[2]), self._rejection(recycle=event.recycle))

    def _rejection(self, *, recycle: bool) -> TriomqError:
        if recycle:
            return LimitExceeded(
                "the broker has no room for a content now (Reject with recycle): a queue is full; read from it, or "
                "raise its limit, and publish again later"
            )
        return Refused(
            "the broker rejects a content: no queue takes it, or it is too large, or the user may not publish there"
        )

    def _until(self, last: int) -> list[int]:
        """Return the unconfirmed numbers up to one."""
        found = []
        for number in self._unconfirmed:
            if number > last:
                break
            found.append(number)
        return found

    def _take_refused(self, event: ResponseReceived) -> None:
        if self.confirms == "none" and self._refused is None:
            self._refused = self._refusal(event.code, f"content {event.sequence} of this writer, and perhaps others")

    def _lost(self) -> None:
        if not self._policy.resend:
            error = Disconnected("the connection was lost before the broker had confirmed a content: it has it, or not")
            unconfirmed, self._unconfirmed = self._unconfirmed, {}
            _fail(unconfirmed.values(), error)

    def fail(self, error: TriomqError) -> None:
        """End for good; who waits for a confirm gets the error."""
        super().fail(error)
        left = [*self._unconfirmed.values(), *self._given]
        self._unconfirmed, self._given = {}, []
        _fail(left, error)


def _fail(contents: Iterable[_Given], error: TriomqError) -> None:
    for receiver, _, body in contents:
        receiver.failed(len(body), error)


class MTLPipeline(PublishWindow):
    """Made by ``MTLWriter.open_pipeline``; leaving its block waits until every content is confirmed.

    Args:
        writer: Where to publish.
        limit: How many contents may be on their way at once.
    """

    def __init__(self, writer: MTLWriter, limit: int) -> None:
        super().__init__(limit)
        self._writer = writer

    async def publish(
        self, body: bytes, address: str = "", properties: BasicProperties | None = None, *, resource: str = ""
    ) -> None:
        """Send a content on its way; wait only while too many are, or while the broker takes none.

        Arguments are those of ``MTLWriter.publish``.

        Raises:
            LimitExceeded: The broker had no room for an earlier content.
            Refused: The broker does not take an earlier content.
            TriomqError: The writer has ended.
        """
        writer = self._writer
        suffix = writer.suffix_of(body, address, properties, resource)
        if self._is_full:
            await self._wait_room()
        await writer.put(self, suffix, body)
        self._sent(len(body))
