"""The program of a child process, where its worker is not there any more."""

import subprocess
import sys

from triomq.jobs.child.tokens import ChildPipes

PROGRAM = "import sys; sys.stdin.read(); from triomq.jobs.child.program import main; main()"
"""It begins when it is let, which is when its worker has gone."""


def test_child_whose_worker_died_before_it_began_ends_without_a_word() -> None:
    pipes = ChildPipes[str]()
    command = [sys.executable, "-c", PROGRAM, *map(str, pipes.child)]
    with subprocess.Popen(
        command, pass_fds=pipes.child, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as child:
        pipes.started()
        pipes.close()
        output, _ = child.communicate(timeout=60)
    assert (child.returncode, output) == (0, b"")
