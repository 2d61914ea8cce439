"""Descriptors that a fork of this process does not have, though the process goes on with them."""

import os
import select
import socket
from pathlib import Path

from forking import FORKS, descriptors, in_fork, left_in_fork
from triomq.process import Place, close_in_forks, close_places_in_forks, fork_error, tell_forks

pytestmark = FORKS


class Owner:
    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.was_told = False

    def tell(self) -> None:
        self.was_told = True


def test_fork_has_nothing_of_a_socket_and_the_process_goes_on_with_it() -> None:
    before = descriptors()
    ours, theirs = map(close_in_forks, socket.socketpair())
    with ours, theirs:
        assert left_in_fork(before) == []
        assert in_fork(lambda: ours.send(b"from the fork")).startswith("OSError: [Errno 88]")
        ours.send(b"x")
        assert theirs.recv(10) == b"x"


def test_end_of_a_connection_is_seen_though_a_fork_lives() -> None:
    ours, theirs = map(close_in_forks, socket.socketpair())
    with theirs:
        in_fork(ours.close)  # which is not felt here
        theirs.settimeout(0)
        assert in_fork(lambda: None) == "None"
        try:
            theirs.recv(1)
        except BlockingIOError:
            pass
        else:
            raise AssertionError("the fork has ended the connection")
        ours.close()
        assert theirs.recv(1) == b""


def test_epoll_set_of_the_process_is_not_changed_by_a_fork() -> None:
    ours, theirs = map(close_in_forks, socket.socketpair())
    with ours, theirs, select.epoll() as found:
        owner = close_in_forks(Owner(found.fileno()), lambda owner: owner.numbers)
        found.register(ours, select.EPOLLIN)
        assert in_fork(lambda: found.unregister(ours)).startswith("PermissionError")
        theirs.send(b"x")
        assert found.poll(0) == [(ours.fileno(), select.EPOLLIN)]
        del owner


def test_descriptor_that_was_closed_before_is_not_opened_in_a_fork() -> None:
    owner = close_in_forks(Owner(900), lambda owner: owner.numbers)
    assert in_fork(lambda: os.fstat(900)).startswith("OSError: [Errno 9]")
    del owner


def test_fork_closes_nothing_of_an_object_that_is_collected() -> None:
    reading, writing = os.pipe()
    close_in_forks(Owner(reading), lambda owner: owner.numbers)
    assert in_fork(lambda: os.write(writing, b"x")) == "1"
    assert os.read(reading, 1) == b"x"
    os.close(reading)
    os.close(writing)


def test_replaced_descriptor_is_not_inherited_by_programs() -> None:
    ours, theirs = map(close_in_forks, socket.socketpair())
    with ours, theirs:
        assert in_fork(lambda: os.get_inheritable(ours.fileno())) == "False"


def test_connections_that_nobody_has_declared_are_found_by_their_places(tmp_path: Path) -> None:
    for address in (("127.0.0.1", 0), str(tmp_path / "socket")):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        before = descriptors()
        with socket.socket(family) as listening, socket.socket(family) as client, socket.socket(family) as other:
            listening.bind(address)
            listening.listen()
            name = listening.getsockname()
            place = Place(name, 0) if isinstance(name, str) else Place(*name)
            client.connect(name)
            accepted, _ = listening.accept()
            with accepted:
                assert len(left_in_fork(before)) == 4
                owner = close_places_in_forks(Owner(), lambda owner, place=place: [place])  # type: ignore[misc]
                left = left_in_fork(before)
                assert sorted(left) == sorted(f"socket:[{os.fstat(one.fileno()).st_ino}]" for one in (client, other))
                close_places_in_forks(owner, lambda owner, place=place: [place._replace(is_ours=False)])  # type: ignore[misc]
                if family == socket.AF_INET:
                    assert f"socket:[{os.fstat(client.fileno()).st_ino}]" not in left_in_fork(before)


def test_fork_of_a_fork_knows_what_the_fork_has_made() -> None:
    def grandchild() -> list[str]:
        before = descriptors()
        pair = [*map(close_in_forks, socket.socketpair())]
        found = left_in_fork(before)
        del pair
        return found

    assert in_fork(grandchild) == "[]"


def test_object_is_told_in_the_fork_alone() -> None:
    owner = tell_forks(Owner(), Owner.tell)
    assert in_fork(lambda: owner.was_told) == "True"
    assert not owner.was_told


def test_fork_without_a_free_descriptor_closes_all_the_same() -> None:
    import resource

    before = descriptors()
    ours, theirs = map(close_in_forks, socket.socketpair())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    reading, writing = os.pipe()
    with ours, theirs:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            child = os.fork()
        finally:
            if child:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        if not child:
            os.write(writing, b"open" if _is_open(ours) or _is_open(theirs) else b"closed")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 10) == b"closed"
    os.close(reading)
    os.close(writing)
    assert set(descriptors().values()) <= set(before.values()) | {f"/proc/{os.getpid()}/fd"}


def _is_open(found: socket.socket) -> bool:
    try:
        os.fstat(found.fileno())
    except OSError:
        return False
    return True


def test_error_in_a_fork_says_which_process_has_it() -> None:
    text = str(fork_error("the broker", 7))
    assert text.startswith(f"this is process {os.getpid()}, a fork of process 7 in which the broker runs")
