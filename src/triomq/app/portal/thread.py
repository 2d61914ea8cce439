"""A broker in a thread of its own."""

import threading
from concurrent.futures import Future
from functools import partial
from typing import Unpack

import trio

from triomq.app.portal.arguments import BrokerArguments
from triomq.app.portal.portal import Portal, run_portal
from triomq.app.start import open_broker
from triomq.endpoints import EndpointConfig
from triomq.errors import ActorStopped

_FOLLOWS = (ActorStopped, trio.BrokenResourceError)
"""What calls and feeds raise just before their broker fails as a whole."""


class BrokerThread:
    """A thread that runs a broker in Trio and is reached by a portal; ends after ``drain`` or ``cancel``.

    Args:
        endpoints: What to listen for.
        arguments: Those of ``open_broker``.
    """

    def __init__(self, *endpoints: EndpointConfig, **arguments: Unpack[BrokerArguments]) -> None:
        self.started: Future[Portal] = Future()
        self.over: Future[None] = Future()
        """Done when the run has ended, with the error that it failed of."""
        self._open = partial(open_broker, *endpoints, **arguments)
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_cancelled = False
        self._everything = trio.CancelScope()
        self._drain = trio.Event()
        # A daemon: an event loop that is dropped without ending its tasks must not keep the interpreter from ending.
        threading.Thread(target=self._run, name="triomq", daemon=True).start()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            trio.run(self._main)
        except BaseException as error:
            failure = error
        end = failure or ActorStopped("this broker is gone: the block in which it was open was left")
        if not self.started.done():
            self.started.set_exception(end)
        elif self.started.exception() is None:
            self.started.result().close(end)
        if failure is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(failure)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        if self._is_cancelled:
            self._everything.cancel()
        with self._everything:
            async with self._open() as broker, run_portal(broker) as portal:
                self.started.set_result(portal)
                await self._drain.wait()

    def drain(self) -> None:
        """Begin to drain the broker, after what was sent to it before; ``over`` is done when it has ended."""
        self.started.result().callbacks.call_soon(self._drain.set)

    def cancel(self) -> None:
        """Begin to end the broker at once; ``over`` is done when it has ended."""
        self._is_cancelled = True
        try:
            if self._token is not None:
                self._token.run_sync_soon(self._everything.cancel)
        except trio.RunFinishedError:
            pass  # it has ended already

    def error_of_block(self, error: BaseException) -> BaseException:
        """Return the error that the block of a broker raises, when it ended with an error and the broker is over.

        An error that only follows from the broker's own failure gives way to that; any other has it as a note.
        """
        failure = self.over.exception()
        if failure is None or failure is error:
            return error
        if isinstance(error, _FOLLOWS):
            return failure
        error.add_note(f"The broker failed too: {failure!r}")
        return error
