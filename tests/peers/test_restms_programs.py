"""Programs in other languages, each a script beside this file: Node with its fetch, Perl with LWP and XML::Simple."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from peers.served import Served

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
PATIENCE = 120.0


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_fetch_of_node_posts_polls_streams_and_gives_up(tool: Callable[[str], str], restms: Served) -> None:
    said = run(tool("node"), str(HERE / "restms_node.mjs"), restms.restms)
    assert said.count("ok - ") == 7


def test_program_with_the_habits_of_2009_finds_what_it_needs(
    tool: Callable[[str], str], request: pytest.FixtureRequest, restms: Served
) -> None:
    perl = tool("perl")
    if subprocess.run([perl, "-MLWP", "-MXML::Simple", "-e", "1"], capture_output=True, check=False).returncode:
        reason = "LWP or XML::Simple is not installed: apt install libwww-perl libxml-simple-perl"
        (pytest.fail if request.config.getoption("--require-peers") else pytest.skip)(reason)
    said = run(perl, "-w", str(HERE / "restms_2009.pl"), restms.restms.removeprefix("http://"))
    assert "\n1..10\n" in said
