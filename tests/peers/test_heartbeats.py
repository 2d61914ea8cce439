"""Heartbeats in real time, at the shortest interval that can be agreed."""

import time
from collections.abc import Callable

from pamqp.heartbeat import Heartbeat

from peers.raw import HEARTBEAT, RawPeer

INTERVAL = 1


def test_client_that_falls_silent_is_closed_and_hears_heartbeats_until_then(raw: Callable[..., RawPeer]) -> None:
    peer, without = raw(heartbeat=INTERVAL), raw(heartbeat=0)
    began = time.monotonic()
    heartbeats = 0
    while (found := peer.read_any()) is not None:
        if found.kind == HEARTBEAT:
            heartbeats += 1
            assert (found.channel, found.payload) == (0, b"")
    assert heartbeats >= 3
    # Two intervals without a sign of life (specification 4.2.7), and what a timer may come late.
    assert 2 * INTERVAL <= time.monotonic() - began < 60 * INTERVAL
    without.open_channel(1)  # as silent, but nothing was agreed with it


def test_client_that_sends_heartbeats_is_kept(raw: Callable[..., RawPeer]) -> None:
    peer = raw(heartbeat=INTERVAL)
    peer.open_channel(1)
    began = time.monotonic()
    for _ in range(2 * 4):  # the broker sends one each half interval, and each is answered
        found = peer.read_any()
        assert found is not None
        assert found.kind == HEARTBEAT
        peer.send(0, Heartbeat())
    assert 3 * INTERVAL < time.monotonic() - began < 60 * INTERVAL
    assert peer.declare_queue()
