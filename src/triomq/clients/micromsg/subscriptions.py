"""All subscriptions of a connection, over all of its links: how they begin, come back, and end.

    begin ──▶ SUBSCRIBE ──▶ answered: messages ──▶ took ──▶ the one of their destination
                  ▲              └──── refused: raised, or fails it if it was there before
                  └── recover: on the next link
    end ──▶ UNSUBSCRIBE, then acks of what was not accepted ──▶ answered: no more comes

What was sent before UNSUBSCRIBE was read is still to be acknowledged, or the window fills. The broker has taken it back
by then, so these acks delete nothing.
"""

import trio

from triomq.clients.micromsg.link import MicroMsgLink
from triomq.clients.micromsg.subscription import MicroMsgSubscription, name_of
from triomq.clients.transport_link import CLOSE_TIMEOUT
from triomq.errors import ConsumerCancelled, LocalProtocolError, Refused, TriomqError
from triomq.protocols.micromsg import CommandAnswered, MicroMessageRun


class Subscriptions:
    """Made by its connection, and outlives its links."""

    def __init__(self) -> None:
        self.pushed = MicroMsgSubscription("")
        """What the peer sends to destinations that nobody has subscribed."""
        self._open: dict[str, MicroMsgSubscription] = {}
        self._left: dict[str, MicroMsgSubscription] = {}  # what the peer may still send on the present link
        self._begun: set[MicroMsgSubscription] = set()
        self._commands: dict[int, MicroMsgSubscription] = {}  # by the number of their SUBSCRIBE on the present link

    def __len__(self) -> int:
        """Count those that are open."""
        return len(self._open)

    @property
    def buffered(self) -> int:
        """How many messages have come, and nobody has taken."""
        return sum(each.buffered for each in (*self._open.values(), self.pushed))

    def add(self, subscription: MicroMsgSubscription) -> None:
        """Add one that is to begin.

        Raises:
            LocalProtocolError: Its destination has one.
        """
        name = name_of(subscription.destination)
        if name in self._open:
            raise LocalProtocolError(
                f"{subscription.destination!r} is subscribed on this connection; let several tasks iterate over that, "
                "or open another connection"
            )
        self._open[name] = subscription
        self._left.pop(name, None)

    async def begin(self, link: MicroMsgLink, subscription: MicroMsgSubscription) -> None:
        """Subscribe on a link.

        Raises:
            Refused: The peer refuses it, or knows no subscriptions.
            Disconnected: The link was lost meanwhile.
        """
        if not link.engine.speaks("pub-sub"):
            raise Refused(
                f"the peer at {link.place} knows no subscriptions (pub-sub); what it sends by itself comes by "
                "read_pushed"
            )
        number = link.engine.subscribe(subscription.destination, subscription.conditions, subscription.id)
        self._commands[number] = subscription
        try:
            await link.ask(number)
        except TriomqError:
            self._commands.pop(number, None)
            raise
        self._begun.add(subscription)

    async def recover(self, link: MicroMsgLink) -> None:
        """Subscribe to everything again; what the peer refuses of that fails its subscription alone.

        Raises:
            Disconnected: The link was lost meanwhile.
        """
        for subscription in self._begun.copy():
            try:
                await self.begin(link, subscription)
            except TriomqError as error:
                if link.error is not None:
                    raise
                self._begun.discard(subscription)
                subscription.fail(error)

    async def end(self, link: MicroMsgLink | None, subscription: MicroMsgSubscription) -> None:
        """Unsubscribe; what was not accepted goes back to its queue."""
        subscription.end()
        self._begun.discard(subscription)
        if link is not None and link.error is None:
            link.write()  # what was accepted must not go back
            if subscription in self._commands.values():
                number = link.engine.unsubscribe(subscription.destination, subscription.id)
                subscription.give_back()
                with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                    try:
                        await link.ask(number)
                    except TriomqError:
                        pass  # nobody wants to know
            else:  # the peer has ended it, and with it has taken back what was not acknowledged
                subscription.give_back()
        self._commands = {number: each for number, each in self._commands.items() if each is not subscription}
        name = name_of(subscription.destination)
        del self._open[name]
        self._left[name] = subscription

    # What links tell

    def took(self, link: MicroMsgLink, run: MicroMessageRun) -> None:
        """Take messages."""
        name = name_of(run.shape.destination)
        (self._open.get(name) or self._left.get(name) or self.pushed).take(run, link)

    def told(self, answer: CommandAnswered) -> None:
        """End a subscription that the broker has ended: it answers to its SUBSCRIBE a second time."""
        subscription = self._commands.get(answer.number)
        if subscription is not None and answer.code >= 300:
            del self._commands[answer.number]
            self._begun.discard(subscription)
            subscription.fail(
                ConsumerCancelled(f"the broker has ended {subscription.destination!r}: {answer.code} {answer.text}")
            )

    def lost(self) -> None:
        """Note that the link has ended."""
        self._commands.clear()
        self._left.clear()
        for subscription in (*self._open.values(), self.pushed):
            subscription.lost()

    def fail(self, error: TriomqError) -> None:
        """End all for good."""
        for subscription in (*self._open.values(), self.pushed):
            subscription.fail(error)
