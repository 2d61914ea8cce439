"""What a fork of this process does not keep: descriptors of brokers and clients, and objects that nobody serves there.

A fork has a copy of every descriptor and not one of the threads that serve them. A listener would stay open with nobody
to accept, a connection without its end, and a store would hold its lock, for as long as the child lives. So whoever
makes a descriptor says so here, and it is closed in the child:

    made ──▶ close_in_forks(socket) ──▶ weakly kept ──▶ os.fork() ──▶ in the child: /dev/null in its place
                                                                  └─▶ in the parent: nothing

- Closing in the child must not be felt in the parent. So there is no ``shutdown``, which is for all who have a socket,
  no ``epoll_ctl`` on a set that is the parent's too, and no file of a Unix socket is removed: a descriptor is replaced,
  which the kernel does for the child alone.
- It is replaced by ``/dev/null``, and not only closed: the child's objects still know its number, and one that is
  collected later would close what has the number by then.
- Descriptors that a library makes in threads of its own (ZeroMQ), or that are a moment old, are found by where they
  lead: from an address at which we listen, or to one that we connect to.
- ``subprocess`` needs none of this, also with ``close_fds=False``: no descriptor of ours outlives an ``exec``.

This is the one table of the process: forks are the process's, not a broker's.
"""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Never, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_EVERYWHERE = ("", "0.0.0.0", "::")
"""Hosts that stand for all addresses of the machine."""


class Place(NamedTuple):
    """The address of one end of a connection.

    Args:
        host: An address of the machine, or the path of a Unix socket; one of ``_EVERYWHERE`` for any.
        port: A port; 0 for a Unix socket.
        is_ours: Whether it is this end: all that was accepted there is meant; else what is connected with it.
    """

    host: str
    port: int
    is_ours: bool = True


_descriptors: "WeakKeyDictionary[Any, Callable[[Any], Iterable[int]]]" = WeakKeyDictionary()
_places: "WeakKeyDictionary[Any, Callable[[Any], Iterable[Place]]]" = WeakKeyDictionary()
_told: "WeakKeyDictionary[Any, Callable[[Any], object]]" = WeakKeyDictionary()
_process = 0
"""The process whose objects these are."""


def _own(owner: Any) -> tuple[int]:
    return (owner.fileno(),)


def close_in_forks(owner: T, descriptors: Callable[[T], Iterable[int]] = _own) -> T:
    """Close the descriptors of an object in every fork of this process, as long as the object lives; return it.

    Args:
        owner: A socket or the like, which is kept weakly.
        descriptors: Returns those that it has open, called with it in the fork; its ``fileno()`` by default. A function
            that has no reference to the object.
    """
    return _keep(_descriptors, owner, descriptors)


def close_places_in_forks(owner: T, places: Callable[[T], Iterable[Place]]) -> T:
    """Close every connection at some places in every fork, as ``close_in_forks`` does; return the owner."""
    return _keep(_places, owner, places)


def tell_forks(owner: T, act: Callable[[T], object]) -> T:
    """Call a function with an object in every fork of this process, as long as the object lives; return it."""
    return _keep(_told, owner, act)


def refuse_in_forks(owner: T, what: str) -> T:
    """Have every use of an object raise ``fork_error`` in every fork of this process; return it.

    For objects whose methods wait for tasks that a fork has not: there they would wait for ever. The object gets
    another class in the fork, so that it costs nothing before.

    Args:
        owner: What is used, kept weakly.
        what: What it is, for the error.
    """
    process = os.getpid()

    def refuse(self: object, name: str) -> Never:
        raise fork_error(what, process)

    def refuse_all(owner: Any) -> None:
        kind = type(owner)
        owner.__class__ = type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": refuse})

    return tell_forks(owner, refuse_all)


def _keep(table: "WeakKeyDictionary[Any, Callable[[Any], Any]]", owner: T, function: Callable[[T], object]) -> T:
    notice_fork()
    table[owner] = function
    return owner


def notice_fork() -> None:
    """Notice a fork that Python was not told of, and do then what is to be done in forks.

    Servers that fork in C make such (uWSGI, unless ``py-call-osafterfork`` is set). Whatever is called in a fork, and
    would wait for what it has not, calls this first.
    """
    global _process
    process = os.getpid()
    if process != _process:
        if _process:
            _in_fork()
        else:
            os.register_at_fork(after_in_child=_in_fork)
            _process = process


def fork_error(what: str, process: int, other_way: str = "Open another one in this process") -> RuntimeError:
    """Return what a call in a fork raises.

    Args:
        what: What it would reach.
        process: The process that has it.
        other_way: What to do.
    """
    return RuntimeError(
        f"this is process {os.getpid()}, a fork of process {process} in which {what} runs; no thread survives a fork, "
        f"and no connection. {other_way}"
    )


def open_descriptors() -> Iterator[tuple[int, str]]:
    """Iterate over all descriptors of this process, and what each leads to; nothing where the system does not say."""
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError, ValueError):  # the one of the list itself
                yield int(name), os.readlink(f"/proc/self/fd/{name}")


# In a fork, right after it


def _in_fork() -> None:
    global _process
    _process = os.getpid()
    found = {number for owner, find in list(_descriptors.items()) for number in _ask(owner, find)}
    places = {place for owner, find in list(_places.items()) for place in _ask(owner, find)}
    if places:
        found |= _at(places)
    _close(number for number in found if number >= 0)
    told = list(_told.items())
    for table in (_descriptors, _places, _told):
        table.clear()
    for owner, act in told:
        act(owner)


def _ask(owner: T, find: Callable[[T], Iterable[Any]]) -> list[Any]:
    try:
        return list(find(owner))
    except (OSError, ValueError):  # it is closed
        return []


def _at(places: set[Place]) -> set[int]:
    """Return the sockets of this process that lead to some places."""
    return {
        number
        for number, link in open_descriptors()
        if link.startswith("socket:")
        for address, is_ours in _ends(number)
        if {Place(host, address.port, is_ours) for host in (address.host, *_EVERYWHERE)} & places
    }


def _ends(descriptor: int) -> Iterator[tuple[Place, bool]]:
    """Iterate over the addresses of both ends of a socket, and say which is ours."""
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        return
    try:
        for ask, is_ours in ((found.getsockname, True), (found.getpeername, False)):
            with suppress(OSError):
                name = ask()
                if isinstance(name, tuple) and len(name) >= 2 and found.family in (socket.AF_INET, socket.AF_INET6):
                    yield Place(str(name[0]).removeprefix("::ffff:"), int(name[1])), is_ours
                elif isinstance(name, str) and name:
                    yield Place(name, 0), is_ours
    finally:
        found.detach()


def _close(descriptors: Iterable[int]) -> None:
    try:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # no descriptor is left: better one closed by an object that does not know it than one that stays
        for number in descriptors:
            with suppress(OSError):
                os.close(number)
        return
    for number in descriptors:
        with suppress(OSError):
            os.fstat(number)  # one that is closed must not become open
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)
