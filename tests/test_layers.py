"""Which package may import which, as a table, and the few lines that read every import and hold it against the table.

A package is a folder, or a single module, of ``src/triomq``. ``docs/topics/design.rst`` says why the layers are where
they are.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src"


class Package(NamedTuple):
    """What one package may import besides itself, the standard library and msgspec."""

    packages: frozenset[str]
    others: frozenset[str]


def package(packages: str, others: str = "") -> Package:
    return Package(frozenset(packages.split()), frozenset(others.split()))


PACKAGES = {
    # package      may import of triomq                                          and of others
    "triomq": package("app"),  # the package itself: only to type the names that it resolves lazily
    "__main__": package("app"),
    "pytest_plugin": package(
        "app endpoints errors", "trio pytest"
    ),  # apart from app, which pytest is not to load for all
    "errors": package(""),
    "checked": package("errors"),
    "protocols": package("errors"),
    "transports": package("checked errors", "trio zmq"),
    "actors": package("errors", "trio outcome"),  # outcome: what Trio's own reschedule takes
    "store": package("actors errors", "trio"),  # only hosting: the store itself runs without a loop
    "security": package("checked actors errors", "scramp"),
    "core": package(
        "checked actors store errors", "trio"
    ),  # for WouldBlock, and for the tasks of a domain and of an alarm; no queue waits
    "clients": package("checked protocols transports security actors errors", "trio"),
    "jobs": package("core clients actors store errors"),
    "endpoints": package("checked core protocols transports security clients actors errors", "trio"),
    "app": package(
        "checked triomq errors protocols transports actors store security core clients jobs endpoints",
        "trio typer rich",
    ),
    "pipeline": package("clients errors"),
}
EVERYWHERE = sys.stdlib_module_names | {"msgspec"}


def imports_of(path: Path, module: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, module, name) of each import; the name is empty for ``import module``."""
    inside = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, origin, alias.name) for alias in node.names)


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "triomq"


SUBPACKAGES = {"triomq.core.backlog", "triomq.endpoints.content", "triomq.endpoints.direct"}
"""Folders inside a package that the rest of it enters by their own front door; others enter by the package's."""


def door_of(here: str, module: str, source: Path) -> str:
    """Name the front door of a module: its package's, or that of its folder where each folder has one of its own.

    So has each protocol; the portal, since only who comes from asyncio or a thread is to load asyncio; and the store's
    hosting, since the process that it starts is not to load Trio.
    """
    parts = module.split(".")
    folder = ".".join(parts[:3])
    if folder in SUBPACKAGES and package_of(here) == parts[1]:
        return folder
    own_door = parts[1:2] == ["protocols"] and source.joinpath(*parts[:3]).is_dir()
    own_door = own_door or parts[1:3] in (["app", "portal"], ["store", "hosting"])
    return ".".join(parts[: 3 if own_door else 2])


ENDPOINT_PROTOCOLS = ("amqp", "dmp", "federation")
"""How the modules and folders in ``endpoints`` begin that speak one protocol.

No protocol knows another, nor its engine. Federation alone may import AMQP's engine, since its methods are a class of
AMQP's wire, 61501, and come over connections of AMQP; what it reads in messages is ``endpoints.content``. AMQP starts
direct connections by what ``BrokerContext.direct`` was given. What all of them use knows none of them.
"""

COMPOSING = {"triomq.endpoints", "triomq.endpoints.registry"}
"""The modules that put protocols together: the front door, and the list of built-in types."""


COMPOSERS = ("triomq.endpoints", "triomq.endpoints.registry")
"""The modules that know all of them, so that nothing else has to."""


def endpoint_protocol(module: str) -> str | None:
    """Name the protocol that a module in ``endpoints`` speaks; None for what all of them use."""
    parts = module.split(".")
    if parts[1:2] != ["endpoints"] or len(parts) == 2:
        return None
    return next((protocol for protocol in ENDPOINT_PROTOCOLS if parts[2].startswith(protocol)), None)


def wrong_acquaintance(here: str, module: str) -> str | None:
    """Say what is wrong with importing a protocol's module where that protocol is not spoken."""
    own, there = endpoint_protocol(here), endpoint_protocol(module)
    if own and module.startswith("triomq.protocols."):
        engine = module.split(".")[2]
        there = engine if engine in ENDPOINT_PROTOCOLS and (own, engine) != ("federation", "amqp") else None
    if there in (None, own) or here in COMPOSERS:
        return None
    return (
        f"no protocol knows another, and {own or here!r} is to know nothing of {there!r}. What both read in messages "
        "goes to triomq.endpoints.content, what both sides of a direct connection tell each other to "
        "triomq.endpoints.direct; anything else is passed in by who composes them (in BrokerContext, as `direct` is)."
    )


def wrong_dependency(own: str, module: str) -> str | None:
    """Say what is wrong with importing something that is not triomq's."""
    if module.split(".")[0] in EVERYWHERE | PACKAGES[own].others:
        return None
    allowed = ", ".join(["the standard library", "msgspec", *sorted(PACKAGES[own].others)])
    return (
        f"the package {own!r} may import {allowed}, and nothing else. Do the work in a package that may, or, "
        "for a new dependency, add it to PACKAGES in tests/test_layers.py with the reason."
    )


def wrong_import(source: Path, here: str, module: str) -> str | None:
    """Say what is wrong with the module ``here`` importing another module of triomq."""
    own, there, door = package_of(here), package_of(module), door_of(here, module, source)
    if there != own and there not in PACKAGES[own].packages:
        allowed = ", ".join(sorted(PACKAGES[own].packages)) or "no other package"
        return (
            f"the package {own!r} may know {allowed}; not {there!r}. Pass in what is needed (argument, callback), "
            "or move the code to a package that may know both; docs/topics/design.rst says why."
        )
    if module == door or f"{here}.".startswith(f"{door}."):
        return wrong_acquaintance(here, module)
    return (
        f"enter by the front door: `from {door} import …`. If the name is not there, list it in the __all__ of "
        f"{door.replace('.', '/')}/__init__.py, or ask whether it should leave its package at all."
    )


def violations(source: Path) -> list[str]:
    """Read every module below ``source`` and list each import that the table forbids."""
    found = []
    for path in sorted((source / "triomq").rglob("*.py")):
        here = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        if package_of(here) not in PACKAGES:
            unknown = package_of(here)
            found.append(f"{path.relative_to(source)}: PACKAGES does not know {unknown!r}: add it, with what it may")
            continue
        for line, module, name in imports_of(path, here):
            inner = source.joinpath(*module.split("."), name or "-")
            if inner.is_dir() or inner.with_suffix(".py").is_file():
                module = (
                    f"{module}.{name}"  # `from triomq.core import queue` takes the module, not a name of the door's
                )
            wrong = (
                wrong_import(source, here, module)
                if f"{module}.".startswith("triomq.")
                else wrong_dependency(package_of(here), module)
            )
            if wrong:
                found.append(f"{path.relative_to(source)}:{line}: imports {module}, but {wrong}")
    return found


def loaded_by(module: str) -> set[str]:
    """Import a module in a fresh interpreter and return the top-level names of all that was loaded."""
    program = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_import_is_in_the_table() -> None:
    assert not (found := violations(SOURCE)), "\n\n" + "\n\n".join(found)


def test_importing_the_package_loads_no_event_loop() -> None:
    assert not loaded_by("triomq") & {"trio", "msgspec", "asyncio"}


def test_the_process_of_a_store_loads_no_event_loop() -> None:
    assert not loaded_by("triomq.store.server") & {"trio", "asyncio"}


@pytest.mark.parametrize("protocol", sorted(path.parent.name for path in SOURCE.glob("triomq/protocols/*/__init__.py")))
def test_a_protocol_loads_no_event_loop(protocol: str) -> None:
    assert not loaded_by(f"triomq.protocols.{protocol}") & {"trio", "asyncio", "socket"}


# One line of code in one module, and what the table must say about it.
FORBIDDEN = [
    ("protocols/amqp/frames.py", "import trio", "may import the standard library, msgspec, and nothing else"),
    ("protocols/amqp/frames.py", "from triomq.core import Queue", "may know errors; not 'core'"),
    ("protocols/amqp/frames.py", "from ...core import Queue", "may know errors; not 'core'"),
    ("protocols/amqp/frames.py", "from triomq.protocols.mtl.states import X", "`from triomq.protocols.mtl import …`"),
    ("core/queue.py", "from triomq.protocols.amqp import BasicAck", "; not 'protocols'"),
    ("core/queue.py", "def later():\n    import triomq.endpoints", "; not 'endpoints'"),
    ("core/queue.py", "from triomq.actors.ref import Ref", "`from triomq.actors import …`"),
    ("core/queue.py", "from triomq.actors import ref", "`from triomq.actors import …`"),
    ("core/queue.py", "import triomq.actors.ref", "triomq/actors/__init__.py"),
    ("core/queue.py", "import requests", "add it to PACKAGES"),
    ("core/queue.py", "from triomq import open_broker", "; not 'triomq'"),
    ("endpoints/amqp.py", "from triomq.protocols.engine import Engine", "`from triomq.protocols import …`"),
    ("endpoints/amqp.py", "from triomq.protocols.amqp.frames import X", "`from triomq.protocols.amqp import …`"),
    ("endpoints/dmp_sink.py", "from triomq.endpoints.amqp.channel import X", "no protocol knows another"),
    (
        "endpoints/amqp/login.py",
        "from triomq.endpoints.dmp.protocol.sink import X",
        "'amqp' is to know nothing of 'dmp'",
    ),
    ("endpoints/federation/synchroniser.py", "from triomq.endpoints.amqp.direct import X", "no protocol knows another"),
    (
        "endpoints/house.py",
        "from triomq.endpoints.dmp_flow import X",
        "endpoints.house' is to know nothing of 'dmp'",
    ),
    ("endpoints/dmp_sink.py", "from triomq.protocols.amqp import BasicReturn", "'dmp' is to know nothing of 'amqp'"),
    ("pipeline/source.py", "from triomq.core import Queue", "may know clients, errors"),
    ("extra/things.py", "", "does not know 'extra'"),
]
ALLOWED = [
    ("actors/mailbox.py", "import trio.lowlevel\nfrom triomq.actors.ref import Ref"),
    ("protocols/amqp/frames.py", "import struct, msgspec\nfrom triomq.errors import Refused\nfrom . import states"),
    ("protocols/amqp/frames.py", "from triomq.protocols.engine import Engine\nfrom ..engine import Engine"),
    ("core/queue.py", "import os.path\nfrom triomq.actors import Ref\nfrom triomq import errors"),
    ("endpoints/amqp.py", "from triomq.core import Queue\nfrom triomq.protocols.amqp import AMQPEngine"),
    (
        "endpoints/amqp_login.py",
        "from triomq.endpoints.base.endpoint import X\nfrom triomq.endpoints.amqp.names import Y",
    ),
    ("endpoints/federation/synchroniser.py", "from triomq.protocols.amqp import DeliverRun"),
    (
        "endpoints/__init__.py",
        "from triomq.endpoints.amqp.endpoint import X\nfrom triomq.endpoints.dmp.protocol import Y",
    ),
    ("app/cli/__init__.py", "import typer\nfrom triomq import __version__\nfrom triomq.app.broker import open_broker"),
]


def tree_with(folder: Path, file: str, code: str) -> Path:
    """Build a small tree of packages that holds one module with one import."""
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


@pytest.mark.parametrize(("file", "code", "advice"), FORBIDDEN)
def test_forbidden_import_is_found_and_the_text_says_what_to_do(
    tmp_path: Path, file: str, code: str, advice: str
) -> None:
    (found,) = violations(tree_with(tmp_path, file, code))
    assert found.startswith(f"triomq/{file}")
    assert advice in found


@pytest.mark.parametrize(("file", "code"), ALLOWED)
def test_allowed_import_is_left_alone(tmp_path: Path, file: str, code: str) -> None:
    assert violations(tree_with(tmp_path, file, code)) == []


PROTOCOL_FREE = "config definitions environment listening reload shapes tree validation cli.check cli.serve"
"""Modules of ``app`` that serve any endpoint: what they say of one, its configuration tells them."""


@pytest.mark.parametrize("name", PROTOCOL_FREE.split())
def test_configuration_of_endpoints_imports_no_protocol(name: str) -> None:
    here = f"triomq.app.{name}"
    path = SOURCE.joinpath(*here.split(".")).with_suffix(".py")
    taken = [(module, what) for _, module, what in imports_of(path, here)]
    named = [what for module, what in taken if "amqp" in what.lower() or "dmp" in what.lower()]
    spoken = [module for module, _ in taken if module.startswith("triomq.protocols.") and "control" not in module]
    assert not named + spoken, "let EndpointConfig say it; triomq.endpoints knows which protocols there are"
