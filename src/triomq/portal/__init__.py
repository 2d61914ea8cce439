"""Calls from plain threads and from asyncio into a Trio run in another thread; what is reached there is up to users."""

from triomq.portal.asyncio_caller import AsyncioCaller, loop_callbacks, wait_done, wait_shielded
from triomq.portal.blocking_caller import BlockingCaller
from triomq.portal.call import Call, Withdrawn
from triomq.portal.callbacks import Callback, CallbackQueue
from triomq.portal.portal import TrioPortal, run_portal
from triomq.portal.thread import PortalThread

__all__ = [
    "AsyncioCaller",
    "BlockingCaller",
    "Call",
    "Callback",
    "CallbackQueue",
    "PortalThread",
    "TrioPortal",
    "Withdrawn",
    "loop_callbacks",
    "run_portal",
    "wait_done",
    "wait_shielded",
]
