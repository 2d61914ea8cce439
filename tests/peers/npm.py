"""Packages of npm for tests of JavaScript; nothing of them is kept in this tree."""

import shutil
import subprocess
from pathlib import Path

PATIENCE = 120.0


def install_by_npm(folder: Path, *packages: str) -> str:
    """Install packages into a folder; return why that cannot be, in words, empty if it could."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed: apt install npm"
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"npm has not installed {' and '.join(packages)} within {PATIENCE:g} s"
    return f"npm cannot install {' and '.join(packages)}: {done.stderr[-500:]}" if done.returncode else ""
