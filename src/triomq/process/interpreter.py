"""How a new interpreter of Python is started: the store's process, the trace log's, those of sync jobs, Spark's.

``sys.executable`` is an interpreter in most programs. In a frozen one (PyInstaller, cx_Freeze, Nuitka) it is the
program, under a server that has Python inside (uWSGI) it is the server: started with our arguments, either would run
from its beginning, open its broker, and start itself again, without end. So, in this order:

1. An interpreter that was named, by ``set_executable`` or ``TRIOMQ_PYTHON``. It is asked once for its version.
2. ``sys.executable``, if it is an interpreter by all that can be seen without starting it.
3. The program itself, if it has called ``freeze_support``, as for ``multiprocessing``: it becomes the process then.
4. An error, before anything is started.

A name can deceive. So whatever is started has ``TRIOMQ_PROCESS`` in its environment, which our processes remove first:
a program that finds it was started in place of an interpreter, and starts nothing.
"""

import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from triomq.errors import ConfigError
from triomq.version import __version__

PYTHON_VARIABLE: Final = "TRIOMQ_PYTHON"
"""The interpreter to start."""

PROCESS_VARIABLE: Final = "TRIOMQ_PROCESS"
"""The number of the process that has started this one, until this one has found what it is for."""

_ARGUMENT: Final = "--triomq-process"
"""What a program is started with that is to become one of our processes."""

_HOME: Final = str(Path(__file__).parents[2])
"""The folder that has the package triomq."""

_QUESTION: Final = "import sys, msgspec, triomq; print('triomq', triomq.__version__, *sys.version_info[:2])"

_ANSWER: Final = 20.0
"""Seconds that a named interpreter has for its version; a busy machine takes some tenths of one."""

_LEAST: Final = (3, 11)
"""The oldest Python that triomq runs on."""

_WAYS: Final = (
    "name an interpreter that has triomq, by triomq.set_executable('/usr/bin/python3') or in the environment variable "
    f"{PYTHON_VARIABLE}"
)

_NONE: Final = "or use no processes (store_host='thread' for the store, processes=0 for jobs)"


class _Choice:
    """What the program has said about interpreters; one for the process, as ``sys.executable`` is."""

    executable = ""
    is_supported = False


def set_executable(path: str | os.PathLike[str]) -> None:
    """Name the interpreter for all processes of Python that triomq starts; for programs that are no interpreter.

    It is needed where ``sys.executable`` is the program itself (frozen) or a server (uWSGI); call it before a broker or
    a worker is opened. The environment variable ``TRIOMQ_PYTHON`` does the same from outside.

    Args:
        path: An interpreter that has this version of triomq; a name without a slash is looked for in ``PATH``.

    Raises:
        ConfigError: It is none, or has no triomq or another version of it.
    """
    _Choice.executable = _checked(os.fspath(path), "the interpreter given to set_executable")


def freeze_support() -> None:
    """Let a frozen program be the interpreter of its own processes; call it first in the main module.

    In a process that triomq has started as one of its own this runs it, and ends the process. In any other it returns
    at once. As for ``multiprocessing.freeze_support``, whatever stands before it runs in each of the processes.
    """
    _Choice.is_supported = True
    if len(sys.argv) > 2 and sys.argv[1] == _ARGUMENT and sys.argv[2].startswith("triomq."):
        del sys.argv[:2]
        import_module(sys.argv[0]).main()
        sys.exit()


def interpreter_path() -> str:
    """Return the path of an interpreter that can be started.

    Raises:
        ConfigError: There is none that we know of; the text says what to do.
    """
    if (named := _named()) is not None:
        return named
    _refuse_recursion()
    if (trouble := _trouble()) is not None:
        raise ConfigError(f"{trouble}; {_WAYS}")
    return sys.executable


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs ``main`` of a module of triomq in a process of its own.

    Args:
        module: Its whole name.
        arguments: What it finds in ``sys.argv``.

    Raises:
        ConfigError: There is no interpreter that we know of; the text says what to do.
    """
    executable = _named()
    if executable is None:
        _refuse_recursion()
        trouble = _trouble()
        if trouble is not None and _Choice.is_supported and _is_runnable(sys.executable):
            return [sys.executable, _ARGUMENT, module, *arguments]
        if trouble is not None:
            raise ConfigError(
                f"{trouble}; call triomq.freeze_support() first in the main module of a frozen program, or {_WAYS}, "
                f"{_NONE}"
            )
        executable = sys.executable
    # Not -m: it warns about a module that its package has imported already.
    return [executable, "-P", "-c", f"from {module} import main; main()", *arguments]


def require_python() -> None:
    """Check that a process of Python can be started, before anything is.

    Raises:
        ConfigError: There is no interpreter that we know of; the text says what to do.
    """
    python_command("")


def python_environment() -> dict[str, str]:
    """Return the environment of a process of ours: it finds this very triomq, and knows that it is one."""
    return _environment(is_self=_named() is None)


def _environment(*, is_self: bool) -> dict[str, str]:
    found = os.environ | {PROCESS_VARIABLE: str(os.getpid())}
    if not _is_frozen():
        # Programs may find triomq by a path of their own, which a new interpreter does not know.
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (_HOME, os.environ.get("PYTHONPATH", ""))))
    elif not is_self and "LD_LIBRARY_PATH" in found:
        # PyInstaller's, for the libraries of the program; it keeps what was there before.
        found["LD_LIBRARY_PATH"] = found.pop("LD_LIBRARY_PATH_ORIG", "")
    return found


def has_own_modules() -> bool:
    """Return whether a process finds other modules than this program: an interpreter that a frozen one was given."""
    return _is_frozen() and _named() is not None


def forget_origin() -> None:
    """Remove what says that this process was started by triomq; ours call it first, since they may start others."""
    os.environ.pop(PROCESS_VARIABLE, None)


def _named() -> str | None:
    if _Choice.executable:
        return _Choice.executable
    given = os.environ.get(PYTHON_VARIABLE, "")
    return _checked(given, f"the environment variable {PYTHON_VARIABLE}") if given else None


def _refuse_recursion() -> None:
    parent = os.environ.get(PROCESS_VARIABLE)
    if parent:
        raise ConfigError(
            f"this program was started by process {parent} as an interpreter of Python, which it is not: "
            f"sys.executable is {sys.executable!r}. In that program {_WAYS}, {_NONE}"
        )


def _trouble() -> str | None:
    """Return why ``sys.executable`` is no interpreter, as far as that can be seen without starting it."""
    path = sys.executable
    if not path:
        return "sys.executable is empty, so that no process of Python can be started"
    if _is_frozen():
        return f"this program is frozen: sys.executable, {path}, is the program itself and no interpreter of Python"
    if "py" not in Path(path).name.lower():
        return (
            f"sys.executable is {path}, which by its name is no interpreter of Python but a program that has one inside"
        )
    if not _is_runnable(path):
        return f"sys.executable is {path}, where no program is that may be run"
    return None


def _is_frozen() -> bool:
    return bool(getattr(sys, "frozen", False)) or "__compiled__" in globals()  # the latter is Nuitka's word


def _is_runnable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


@cache
def _checked(given: str, what: str) -> str:
    """Return the whole path of an interpreter that was named, once it has answered.

    Raises:
        ConfigError: It is none.
    """
    import shutil  # these two take some milliseconds, which our processes are not to pay
    import subprocess

    path = shutil.which(given)
    if path is None:
        raise ConfigError(f"{what} is {given!r}, where no program is that may be run; give the path of an interpreter")
    try:
        done = subprocess.run(
            [path, "-P", "-c", _QUESTION],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER,
            env=_environment(is_self=False),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{what} is {path}, which cannot be asked for its version: {error}") from None
    match done.stdout.split():
        case ["triomq", version, major, minor] if (int(major), int(minor)) >= _LEAST and version == __version__:
            return path
        case ["triomq", version, major, minor]:
            found = f"has Python {major}.{minor} and triomq {version}; it must have triomq {__version__}"
        case _:
            last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
            found = f"is no interpreter that has triomq: asked for its version, it said {last[:200]!r}"
    raise ConfigError(f"{what} is {path}, which {found}")
