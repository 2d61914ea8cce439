"""What stands between a broker and its disk; and how long what is run on request goes on."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

SHIM = Path(__file__).parents[1] / "store" / "sync_shim.c"


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that notes and spoils syncs, made from its source."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
    return library


@pytest.fixture
def rounds_and_seed(request: pytest.FixtureRequest) -> tuple[int, int]:
    """How often to kill, and what to leave to chance with; only on request, as it takes some minutes."""
    rounds, seed = request.config.getoption("--crash-rounds"), request.config.getoption("--crash-seed")
    if not rounds:
        pytest.skip("takes some minutes: --crash-rounds 50")
    return rounds, random.getrandbits(32) if seed is None else seed
