"""The actors of a broker, and what becomes of them together."""

import logging

import pytest
import trio

from triomq.actors import open_system
from triomq.app.tree import Tree


async def test_actors_after_a_domain_are_restarted_with_it(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="triomq.actors")
    async with open_system() as system:
        tree = Tree()
        await tree.start(system)
        first, second = await tree.start_domain("a"), await tree.start_domain("b")
        second.crash(None, ValueError("a domain"))
        await trio.sleep(1)
        await tree.peers.wait_running()
        await first.wait_running()
        children = tree.top.children.values()
        assert {ref.name: ref.epoch for ref in children} == {"domains": 2, "consumers": 2, "endpoints": 2, "peers": 2}
        assert list(tree.domains.children.values()) == [first, second]


async def test_domain_is_called_like_its_directory(autojump_clock: trio.testing.MockClock) -> None:
    async with open_system() as system:
        tree = Tree()
        await tree.start(system)
        ref = await tree.start_domain("shop")
        assert ref.path == "/broker/domains/shop"
        assert tree.directories["shop"].name == "shop"
        assert "amq.topic" in tree.directories["shop"].sinks
