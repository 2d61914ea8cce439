"""One channel follows its table and knows when the fast readers may read."""

from triomq.protocols.amqp import AMQP_METHODS, BasicPublish
from triomq.protocols.amqp.channel import ChannelState
from triomq.protocols.amqp.content import Assembly, Limits

from .wire import header


def test_channel_moves_only_as_the_table_says() -> None:
    channel = ChannelState(1)
    assert not channel.move("received channel.close-ok")
    assert channel.state == "opening"
    assert channel.move("sent channel.open-ok")
    assert channel.state == "open"
    assert channel.plain
    assert channel.move("sent channel.close")
    assert not channel.plain


def test_content_under_way_keeps_the_fast_readers_off() -> None:
    channel, limits = ChannelState(1), Limits(1000)
    assembly = Assembly(AMQP_METHODS.by_type[BasicPublish], BasicPublish(), limits)
    channel.begin_content(assembly)
    assert not channel.plain
    channel.end_content()
    assert channel.plain


def test_closing_channel_gives_back_what_it_held() -> None:
    channel, limits = ChannelState(1), Limits(1000)
    assembly = Assembly(AMQP_METHODS.by_type[BasicPublish], BasicPublish(), limits)
    channel.begin_content(assembly)
    assembly.add_header(header(1, 10))
    assert limits.unfinished > 0
    channel.move("received channel.close")
    assert limits.unfinished == 0
    assert channel.assembly is None
