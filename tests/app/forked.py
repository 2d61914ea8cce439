"""A program that embeds a broker and has a child: ``python forked.py WAY HOST DIRECTORY``.

It prints the port, the child's number and its own, and then leaves its block when a line comes, or is killed.
"""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings

from triomq import AMQP, EMQP, Tap, open_blocking_broker

warnings.simplefilter("ignore", DeprecationWarning)  # forks of a program with threads are the subject


def by_multiprocessing() -> int:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,), daemon=False)
    child.start()
    assert child.pid is not None
    return child.pid


def by_fork() -> int:
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    return child


def by_fork_in_a_thread() -> int:
    children: list[int] = []
    thread = threading.Thread(target=lambda: children.append(by_fork()))
    thread.start()
    thread.join()
    return children[0]


def by_subprocess() -> int:
    return subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL).pid


def by_subprocess_with_a_function() -> int:
    return subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL, preexec_fn=lambda: None).pid


WAYS = {
    function.__name__: function
    for function in (
        by_multiprocessing,
        by_fork,
        by_fork_in_a_thread,
        by_subprocess,
        by_subprocess_with_a_function,
    )
}


def main() -> None:
    way, host, directory = sys.argv[1:]
    endpoints = AMQP(port=0), EMQP(port=0), Tap(port=0)
    with open_blocking_broker(*endpoints, data_dir=directory, store_host=host) as broker:  # type: ignore[arg-type]
        broker.declare_queue("q", durable=True)
        broker.publish("", "q", b"confirmed")
        child = WAYS[way]()
        broker.publish("", "q", b"after the fork")
        print(*(listening.port for listening in broker.listening), child, flush=True)
        sys.stdin.readline()
    print("left", flush=True)
    os._exit(0)  # multiprocessing would wait for the child


if __name__ == "__main__":
    main()
