"""Which package may import which: every import is read and held against ``docs/topics/packages.toml``.

A package is a folder, or a single module, of ``src/triomq``; its parts are the folders and modules inside it.
``docs/topics/design.rst`` says why the layers are where they are.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
TABLE = "docs/topics/packages.toml"


class Part(msgspec.Struct, forbid_unknown_fields=True, rename={"purpose": "for"}):
    """What one part of a package may import of the same package, and of the engines."""

    purpose: str
    imports: str = ""
    engines: str = ""
    door: str = ""


class Package(msgspec.Struct, forbid_unknown_fields=True, rename={"purpose": "for"}):
    """What one package may import besides itself, the standard library and msgspec."""

    purpose: str
    imports: str
    later: str = ""
    others: str = ""
    budget: int = 0
    planned: bool = False
    parts: dict[str, Part] = {}

    def part(self, module: str) -> tuple[str, Part | None]:
        """Find the row for a module of this package; its front door has none, since it puts the parts together."""
        name = module.split(".")[2] if module.count(".") > 1 else ""
        if name in self.parts:
            return name, self.parts[name]
        return name, self.parts.get("*", NO_PARTS) if name and self.parts else None


NO_PARTS = Part("a module that the table does not name")


def read_table() -> dict[str, Package]:
    rows = tomllib.loads((ROOT / TABLE).read_text(encoding="utf-8"))["packages"]
    return msgspec.convert(rows, dict[str, Package])


PACKAGES: Mapping[str, Package] = read_table()
EVERYWHERE = sys.stdlib_module_names | {"msgspec"}


def imports_of(path: Path, module: str, *, later: bool | None = None) -> Iterator[tuple[int, str, str]]:
    """Yield (line, module, name) of each import; the name is empty for ``import module``.

    With ``later`` only of those that stand in a function, or of the others.
    """
    inside = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    in_functions = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if later is not None and later != (id(node) in in_functions):
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, origin, alias.name) for alias in node.names)


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "triomq"


def door_of(here: str, module: str) -> str:
    """Return the front door of a module: its package's, or that of its part where that has one of its own.

    Each protocol has one; the portal, since only programs with asyncio or threads are to load asyncio; the store's
    hosting, since the process that it starts is not to load Trio; and ZeroMQ's sockets, since they load pyzmq.
    """
    parts = module.split(".")
    row = PACKAGES[parts[1]].parts.get(parts[2]) if len(parts) > 2 and parts[1] in PACKAGES else None
    own_door = row is not None and (row.door == "all" or (row.door == "package" and package_of(here) == parts[1]))
    return ".".join(parts[: 3 if own_door else 2])


def wrong_part(here: str, module: str) -> str | None:
    """Return what is wrong with one part of a package importing another part, or an engine."""
    own, there = package_of(here), package_of(module)
    part, row = PACKAGES[own].part(here)
    # The front door leads to all parts, so that importing it would be a way round the table.
    other = module.split(".")[2] if module.count(".") > 1 else "door"
    if row is None or other == part:
        return None
    if there == own and (other == "door" or other in PACKAGES[own].parts):
        listed, allowed = "imports", row.imports.split()
    elif there == "protocols" != own and other in PACKAGES[there].parts:
        listed, allowed = "engines", row.engines.split()
    else:
        return None
    if other in allowed:
        return None
    return (
        f"{own}.{part} may import {', '.join(allowed) or 'none'} of {there}; not {other!r}. No protocol knows another, "
        "and what several of them use knows none of them: what they share goes below both, anything else is passed in "
        f"where they are put together. To change the layers, change `{listed}` of {part!r} in {TABLE}."
    )


def wrong_dependency(own: str, module: str) -> str | None:
    """Return what is wrong with importing something that is not triomq's."""
    others = PACKAGES[own].others.split()
    if module.split(".")[0] in EVERYWHERE.union(others):
        return None
    allowed = ", ".join(["the standard library", "msgspec", *sorted(others)])
    return (
        f"the package {own!r} may import {allowed}, and nothing else. Do the work in a package that may, or, "
        f"for a new dependency, add it to its `others` in {TABLE} with the reason."
    )


def wrong_import(here: str, module: str, *, later: bool) -> str | None:
    """Return what is wrong with the module ``here`` importing another module of triomq, perhaps in a function."""
    own, there, door = package_of(here), package_of(module), door_of(here, module)
    allowed = PACKAGES[own].imports.split() + PACKAGES[own].later.split() * later
    if there != own and there not in allowed:
        return (
            f"the package {own!r} may know {', '.join(sorted(allowed)) or 'no other package'}; not {there!r}. "
            "Pass in what is needed (argument, callback), or move the code to a package that may know both; "
            "docs/topics/design.rst says why."
        )
    if module == door or f"{here}.".startswith(f"{door}."):
        return wrong_part(here, module)
    return (
        f"enter by the front door: `from {door} import …`. If the name is not there, list it in the __all__ of "
        f"{door.replace('.', '/')}/__init__.py, or ask whether it should leave its package at all."
    )


class Import(NamedTuple):
    """One import: the module it stands in, and the module it takes, or takes names of; and whether in a function."""

    path: Path
    line: int
    here: str
    module: str
    later: bool


def read_imports(source: Path) -> Iterator[Import]:
    """Read every module below ``source``."""
    for path in sorted((source / "triomq").rglob("*.py")):
        here = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for later in (False, True):
            for line, module, name in imports_of(path, here, later=later):
                inner = source.joinpath(*module.split("."), name or "-")
                # `from triomq.core import queue` takes the module, not a name of the door's
                is_module = inner.is_dir() or inner.with_suffix(".py").is_file()
                yield Import(path.relative_to(source), line, here, f"{module}.{name}" if is_module else module, later)


def unknown_folders(source: Path) -> Iterator[str]:
    """List the packages, and the folders in packages with parts, that have no row."""
    for path in sorted((source / "triomq").rglob("*.py")):
        _, *folders, file = path.relative_to(source).with_suffix("").parts
        package, *inner = folders or [file]
        if package == "__init__":
            continue
        if package not in PACKAGES or (inner and inner[0] not in PACKAGES[package].parts):
            name = ".".join([package, *inner])
            yield f"{path.relative_to(source)}: {TABLE} does not know {name!r}: add what it is for, and may import"


def violations(source: Path) -> list[str]:
    """List each import below ``source`` that the table forbids, and each package that it does not know."""
    found = list(unknown_folders(source))
    for path, line, here, module, later in [] if found else read_imports(source):
        is_ours = f"{module}.".startswith("triomq.")
        wrong = wrong_import(here, module, later=later) if is_ours else wrong_dependency(package_of(here), module)
        if wrong:
            found.append(f"{path}:{line}: imports {module}, but {wrong}")
    return list(dict.fromkeys(found))  # an import of several names is one mistake


def test_module_where_spark_looks_for_us_imports_nothing_but_pyspark_until_it_is_used() -> None:
    # Spark imports all modules of such names, and an error in one of them breaks every source in Python.
    (path,) = (SOURCE / "pyspark_triomq").rglob("*.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    assert {str(name).partition(".")[0] for name in names} - sys.stdlib_module_names == {"pyspark"}


def test_module_where_spark_looks_for_us_loads_nothing_of_ours() -> None:
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    assert not loaded_by("pyspark_triomq") - loaded_by("pyspark.sql.datasource") - {"pyspark_triomq"}


def loaded_by(module: str) -> set[str]:
    """Import a module in a fresh interpreter and return the top-level names of all that was loaded."""
    program = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_imports_are_in_the_table() -> None:
    assert not (found := violations(SOURCE)), "\n\n" + "\n\n".join(found)


def test_rows_of_the_table_stand_for_code_or_are_planned() -> None:
    rows = [(name, name, row.planned) for name, row in PACKAGES.items()]
    rows += [(name, f"{name}/{part}", row.planned) for name, row in PACKAGES.items() for part in row.parts]
    folder = SOURCE / "triomq"
    there = {
        path.relative_to(folder).with_suffix("").as_posix() for path in [*folder.rglob("*.py"), *folder.rglob("*/")]
    } | {"triomq"}
    wrong = [path for _, path, planned in rows if not path.endswith("*") and (path in there) == planned]
    assert not wrong, f"{TABLE} has rows for {wrong}: take out what has gone, and `planned` where the code has come"


def test_table_allows_no_import_that_the_code_does_without() -> None:
    used = set()
    for _, _, here, module, _ in read_imports(SOURCE):
        own, (part, row) = package_of(here), PACKAGES[package_of(here)].part(here)
        key = "*" if part not in PACKAGES[own].parts and row else part
        used |= {(own, package_of(module)), (own, key, module.split(".")[2] if module.count(".") > 1 else "door")}
    planned = {name for name, package in PACKAGES.items() if package.planned}
    spare = [
        f"{name}: {other}"
        for name, package in PACKAGES.items()
        for other in [*package.imports.split(), *package.later.split()]
        if not {name, other} & planned and (name, other) not in used
    ]
    spare += [
        f"{name}.{key}: {other}"
        for name, package in PACKAGES.items()
        for key, row in package.parts.items()
        for other in [*row.imports.split(), *row.engines.split()]
        if (name, key, other) not in used
    ]
    assert not spare, f"{TABLE} allows what is not used: take it out, so that it stays so"


def test_only_front_doors_list_their_names() -> None:
    modules = [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]
    listing = [path for path in modules if re.search(r"^__all__\b", path.read_text(encoding="utf-8"), re.MULTILINE)]
    assert not listing, "__all__ is for the __init__ of a package; elsewhere an underscore tells what is private"


def test_no_name_that_is_imported_late_is_that_of_a_module_beside_it() -> None:
    """The module would take its place as soon as anybody imports it."""
    hidden = []
    for door in sorted(SOURCE.rglob("__init__.py")):
        tables = [node.value for node in ast.parse(door.read_text()).body if isinstance(node, ast.Assign)]
        late = {
            ast.unparse(key).strip("'") for table in tables if isinstance(table, ast.Dict) for key in table.keys if key
        }
        beside = {path.stem for path in door.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
        hidden += [f"{door.parent.name}.{name}" for name in sorted(late & beside)]
    assert not hidden, "name the modules otherwise"


def test_importing_the_package_loads_no_event_loop() -> None:
    assert not loaded_by("triomq") & {"trio", "msgspec", "asyncio"}


def test_process_of_a_store_loads_no_event_loop() -> None:
    assert not loaded_by("triomq.store.server") & {"trio", "asyncio"}


@pytest.mark.parametrize("protocol", sorted(path.parent.name for path in SOURCE.glob("triomq/protocols/*/__init__.py")))
def test_protocol_loads_no_event_loop(protocol: str) -> None:
    assert not loaded_by(f"triomq.protocols.{protocol}") & {"trio", "asyncio", "socket"}


# One line of code in one module, and what the table must say about it.
FORBIDDEN = [
    ("protocols/amqp/frames.py", "import trio", "may import the standard library, msgspec, nacl, and nothing else"),
    ("protocols/amqp/frames.py", "from triomq.core import Queue", "may know errors; not 'core'"),
    ("protocols/amqp/frames.py", "from ...core import Queue", "may know errors; not 'core'"),
    ("protocols/amqp/frames.py", "from triomq.protocols.dmp.states import X", "`from triomq.protocols.dmp import …`"),
    ("core/queue.py", "from triomq.protocols.amqp import BasicAck", "; not 'protocols'"),
    ("core/queue.py", "def later():\n    import triomq.endpoints", "; not 'endpoints'"),
    ("core/queue.py", "from triomq.actors.ref import Ref", "`from triomq.actors import …`"),
    ("core/queue.py", "from triomq.actors import ref", "`from triomq.actors import …`"),
    ("core/queue.py", "import triomq.actors.ref", "triomq/actors/__init__.py"),
    ("jobs/function.py", "from triomq.pipeline import run_batch", "; not 'pipeline'"),
    ("core/queue.py", "import requests", "add it to its `others`"),
    ("core/queue.py", "from triomq import open_broker", "; not 'triomq'"),
    ("endpoints/amqp/login.py", "from triomq.protocols.engine import X", "`from triomq.protocols import …`"),
    ("endpoints/amqp/login.py", "from triomq.protocols.amqp.frames import X", "`from triomq.protocols.amqp import …`"),
    ("endpoints/dmp/sink.py", "from triomq.endpoints.amqp.channel import X", "endpoints.dmp may import base, content"),
    ("endpoints/amqp/login.py", "from triomq.endpoints.dmp.protocol import X", "of endpoints; not 'dmp'"),
    ("endpoints/federation/intake.py", "from triomq.endpoints.amqp.direct import X", "No protocol knows another"),
    (
        "endpoints/base/endpoint.py",
        "from triomq.endpoints.amqp.connection import X",
        "change `imports` of 'base' in docs",
    ),
    ("endpoints/base/endpoint.py", "from triomq.endpoints import AMQP", "not 'door'"),
    ("endpoints/shared.py", "from triomq.endpoints.dmp.sink import X", "endpoints.shared may import none of endpoints"),
    ("endpoints/dmp/sink.py", "from triomq.protocols.amqp import BasicReturn", "dmp of protocols; not 'amqp'"),
    (
        "endpoints/base/endpoint.py",
        "from triomq.protocols.amqp import AMQPEngine",
        "change `engines` of 'base' in docs",
    ),
    ("protocols/dmp/engine.py", "from triomq.protocols.amqp import BasicReturn", "protocols.dmp may import none"),
    (
        "core/backlog/memory.py",
        "from triomq.core.dispatch.feed import Feed",
        "core.backlog may import persistence of core",
    ),
    ("endpoints/spark/endpoint.py", "", "does not know 'endpoints.spark'"),
    ("pipeline/source.py", "from triomq.core import Queue", "; not 'core'"),
    ("extra/things.py", "", "does not know 'extra'"),
]
ALLOWED = [
    ("jobs/function.py", "def map_on():\n    from triomq.pipeline import map_on"),
    ("actors/mailbox.py", "import trio.lowlevel\nfrom triomq.actors.ref import Ref"),
    ("protocols/amqp/frames.py", "import struct, msgspec\nfrom triomq.errors import Refused\nfrom . import states"),
    ("protocols/amqp/frames.py", "from triomq.protocols.engine import Engine\nfrom ..engine import Engine"),
    ("core/queue.py", "import os.path\nfrom triomq.actors import Ref\nfrom triomq import errors"),
    ("endpoints/amqp/login.py", "from triomq.core import Queue\nfrom triomq.protocols.amqp import AMQPEngine"),
    (
        "endpoints/amqp/login.py",
        "from triomq.endpoints.base.endpoint import X\nfrom triomq.endpoints.amqp.names import Y",
    ),
    (
        "core/backlog/memory.py",
        "from triomq.core.persistence.persistence import X\nfrom triomq.core.message import Head",
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
        "protocols/dmp/states",
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
"""Modules of ``app`` that serve any endpoint: all that they know of one stands in its configuration."""


@pytest.mark.parametrize("name", PROTOCOL_FREE.split())
def test_configuration_of_endpoints_imports_no_protocol(name: str) -> None:
    here = f"triomq.app.{name}"
    path = SOURCE.joinpath(*here.split(".")).with_suffix(".py")
    taken = [(module, what) for _, module, what in imports_of(path, here)]
    named = [what for module, what in taken if "amqp" in what.lower() or "dmp" in what.lower()]
    spoken = [module for module, _ in taken if module.startswith("triomq.protocols.") and "control" not in module]
    assert not named + spoken, "put it into EndpointConfig; triomq.endpoints knows which protocols there are"
