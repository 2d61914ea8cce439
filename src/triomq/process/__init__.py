"""One process among others: what its forks do not keep, its end, and the Python processes that it starts."""

from triomq.process.ending import end_with_process
from triomq.process.forks import (
    Place,
    close_in_forks,
    close_places_in_forks,
    fork_error,
    notice_fork,
    open_descriptors,
    refuse_in_forks,
    tell_forks,
)
from triomq.process.interpreter import (
    PROCESS_VARIABLE,
    PYTHON_VARIABLE,
    forget_origin,
    freeze_support,
    has_own_modules,
    interpreter_path,
    python_command,
    python_environment,
    require_python,
    set_executable,
)
from triomq.process.trio_run import close_run_in_forks

__all__ = [
    "PROCESS_VARIABLE",
    "PYTHON_VARIABLE",
    "Place",
    "close_in_forks",
    "close_places_in_forks",
    "close_run_in_forks",
    "end_with_process",
    "forget_origin",
    "fork_error",
    "freeze_support",
    "has_own_modules",
    "interpreter_path",
    "notice_fork",
    "open_descriptors",
    "python_command",
    "python_environment",
    "refuse_in_forks",
    "require_python",
    "set_executable",
    "tell_forks",
]
