"""What stands between a broker and its disk."""

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
