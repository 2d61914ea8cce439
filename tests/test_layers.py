"""The walls between the rooms, as a table and the few lines that read every import and hold it against the table.

A room is a folder of ``src/triomq``. Which room may know which is the architecture; everything else is furniture.
``docs/topics/design.rst`` says why each wall stands.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src"


class Room(NamedTuple):
    """What one room may import besides itself, the standard library and msgspec."""

    rooms: frozenset[str]
    others: frozenset[str]


def room(rooms: str, others: str = "") -> Room:
    return Room(frozenset(rooms.split()), frozenset(others.split()))


ROOMS = {
    # room         may import of triomq                                          and of others
    "triomq": room("app"),  # the package itself: only to type the names that it resolves lazily
    "__main__": room("app"),
    "pytest_plugin": room("app endpoints errors", "trio pytest"),  # apart from app, which pytest is not to load for all
    "errors": room(""),
    "protocols": room("errors"),
    "transports": room("errors", "trio zmq"),
    "actors": room("errors", "trio outcome"),  # outcome: what Trio's own reschedule takes
    "store": room("actors errors", "trio"),  # only the keeper: the store itself runs without a loop
    "security": room("actors errors", "scramp"),
    "core": room("actors store errors", "trio"),  # for the name WouldBlock; nothing in core waits
    "clients": room("protocols transports security actors errors", "trio"),
    "jobs": room("core clients actors store errors"),
    "endpoints": room("core protocols transports security clients actors errors", "trio"),
    "app": room(
        "triomq errors protocols transports actors store security core clients jobs endpoints", "trio typer rich"
    ),
    "pipeline": room("clients errors"),
}
EVERYWHERE = sys.stdlib_module_names | {"msgspec"}


def imports_of(path: Path, module: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, module, name) of each import; the name is empty for ``import module``."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, origin, alias.name) for alias in node.names)


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "triomq"


PACKAGES = {"triomq.core.backlog"}
"""Folders inside a room that the rest of the room enters by their own front door; others enter by the room's."""


def door_of(here: str, module: str, source: Path) -> str:
    """Name the front door of a module: its room's, or that of its folder where each folder has one of its own.

    So has each protocol; the portal, since only who comes from asyncio or a thread is to load asyncio; and the store's
    keeper, since the process that it starts is not to load Trio.
    """
    parts = module.split(".")
    package = ".".join(parts[:3])
    if package in PACKAGES and room_of(here) == parts[1]:
        return package
    own_door = parts[1:2] == ["protocols"] and source.joinpath(*parts[:3]).is_dir()
    own_door = own_door or parts[1:3] in (["app", "portal"], ["store", "keeper"])
    return ".".join(parts[: 3 if own_door else 2])


def stranger(own: str, module: str) -> str | None:
    """Say what is wrong with importing something that is not triomq's."""
    if module.split(".")[0] in EVERYWHERE | ROOMS[own].others:
        return None
    allowed = ", ".join(["the standard library", "msgspec", *sorted(ROOMS[own].others)])
    return (
        f"the room {own!r} may import {allowed}, and nothing else. Do the work in a room that may, or, "
        "for a new dependency, add it to ROOMS in tests/test_layers.py with the reason."
    )


def neighbour(source: Path, here: str, module: str) -> str | None:
    """Say what is wrong with the module ``here`` importing another module of triomq."""
    own, there, door = room_of(here), room_of(module), door_of(here, module, source)
    if there != own and there not in ROOMS[own].rooms:
        allowed = ", ".join(sorted(ROOMS[own].rooms)) or "no other room"
        return (
            f"the room {own!r} may know {allowed}; not {there!r}. Pass in what is needed (argument, callback), "
            "or move the code to a room that may know both; docs/topics/design.rst says why the walls stand."
        )
    if module == door or f"{here}.".startswith(f"{door}."):
        return None
    return (
        f"enter by the front door: `from {door} import …`. If the name is not there, list it in the __all__ of "
        f"{door.replace('.', '/')}/__init__.py, or ask whether it should leave its room at all."
    )


def violations(source: Path) -> list[str]:
    """Read every module below ``source`` and list each import that goes through a wall."""
    found = []
    for path in sorted((source / "triomq").rglob("*.py")):
        here = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        if room_of(here) not in ROOMS:
            found.append(
                f"{path.relative_to(source)}: ROOMS in tests/test_layers.py does not know {room_of(here)!r}: add it"
            )
            continue
        for line, module, name in imports_of(path, here):
            inner = source.joinpath(*module.split("."), name or "-")
            if inner.is_dir() or inner.with_suffix(".py").is_file():
                module = (
                    f"{module}.{name}"  # `from triomq.core import queue` takes the module, not a name of the door's
                )
            wrong = (
                neighbour(source, here, module)
                if f"{module}.".startswith("triomq.")
                else stranger(room_of(here), module)
            )
            if wrong:
                found.append(f"{path.relative_to(source)}:{line}: imports {module}, but {wrong}")
    return found


def loaded_by(module: str) -> set[str]:
    """Import a module in a fresh interpreter and return the top-level names of all that was loaded."""
    program = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_no_import_goes_through_a_wall() -> None:
    assert not (found := violations(SOURCE)), "\n\n" + "\n\n".join(found)


def test_importing_the_package_loads_no_event_loop() -> None:
    assert not loaded_by("triomq") & {"trio", "msgspec", "asyncio"}


def test_the_process_of_a_store_loads_no_event_loop() -> None:
    assert not loaded_by("triomq.store.process") & {"trio", "asyncio"}


@pytest.mark.parametrize("protocol", sorted(path.parent.name for path in SOURCE.glob("triomq/protocols/*/__init__.py")))
def test_a_protocol_loads_no_event_loop(protocol: str) -> None:
    assert not loaded_by(f"triomq.protocols.{protocol}") & {"trio", "asyncio", "socket"}


# One line of code in one module, and what the table must say about it.
BREACHES = [
    ("protocols/amqp/frames.py", "import trio", "may import the standard library, msgspec, and nothing else"),
    ("protocols/amqp/frames.py", "from triomq.core import Queue", "may know errors; not 'core'"),
    ("protocols/amqp/frames.py", "from ...core import Queue", "may know errors; not 'core'"),
    ("protocols/amqp/frames.py", "from triomq.protocols.mtl.states import X", "`from triomq.protocols.mtl import …`"),
    ("core/queue.py", "from triomq.protocols.amqp import BasicAck", "; not 'protocols'"),
    ("core/queue.py", "def later():\n    import triomq.endpoints", "; not 'endpoints'"),
    ("core/queue.py", "from triomq.actors.ref import Ref", "`from triomq.actors import …`"),
    ("core/queue.py", "from triomq.actors import ref", "`from triomq.actors import …`"),
    ("core/queue.py", "import triomq.actors.ref", "triomq/actors/__init__.py"),
    ("core/queue.py", "import requests", "add it to ROOMS"),
    ("core/queue.py", "from triomq import open_broker", "; not 'triomq'"),
    ("endpoints/amqp.py", "from triomq.protocols.engine import Engine", "`from triomq.protocols import …`"),
    ("endpoints/amqp.py", "from triomq.protocols.amqp.frames import X", "`from triomq.protocols.amqp import …`"),
    ("pipeline/source.py", "from triomq.core import Queue", "may know clients, errors"),
    ("cupboard/things.py", "", "does not know 'cupboard'"),
]
FINE = [
    ("actors/mailbox.py", "import trio.lowlevel\nfrom triomq.actors.ref import Ref"),
    ("protocols/amqp/frames.py", "import struct, msgspec\nfrom triomq.errors import Refused\nfrom . import states"),
    ("protocols/amqp/frames.py", "from triomq.protocols.engine import Engine\nfrom ..engine import Engine"),
    ("core/queue.py", "import os.path\nfrom triomq.actors import Ref\nfrom triomq import errors"),
    ("endpoints/amqp.py", "from triomq.core import Queue\nfrom triomq.protocols.amqp import AMQPEngine"),
    ("app/cli/__init__.py", "import typer\nfrom triomq import __version__\nfrom triomq.app.broker import open_broker"),
]


def tree_with(folder: Path, file: str, code: str) -> Path:
    """Build a small tree of rooms that holds one module with one import."""
    for name in [
        "protocols/engine",
        "protocols/amqp/states",
        "protocols/mtl/states",
        "actors/ref",
        "errors",
        file[:-3],
    ]:
        path = folder / "triomq" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code if name == file[:-3] else "", encoding="utf-8")
    return folder


@pytest.mark.parametrize(("file", "code", "advice"), BREACHES)
def test_a_breach_is_found_and_the_text_says_what_to_do(tmp_path: Path, file: str, code: str, advice: str) -> None:
    (found,) = violations(tree_with(tmp_path, file, code))
    assert found.startswith(f"triomq/{file}")
    assert advice in found


@pytest.mark.parametrize(("file", "code"), FINE)
def test_what_the_table_allows_is_left_alone(tmp_path: Path, file: str, code: str) -> None:
    assert violations(tree_with(tmp_path, file, code)) == []
