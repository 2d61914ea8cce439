"""Which types of endpoints there are: the built-in ones, and those of installed packages."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreign_endpoint import install
from triomq import AMQP, Config, load_config
from triomq.app import open_broker
from triomq.app.tree import Tree
from triomq.core import Head, Properties, QueueMessage, traits_of
from triomq.endpoints import EMQP, MTL, EndpointTypes, MicroMsg, RestMS, Tap
from triomq.errors import ConfigError
from triomq.store.hosting import StoreSettings

OTHERS = "an installed package brings others by an entry point of the group 'triomq.endpoints'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path for a package that is gone after the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("triomq_lines", None)


def trouble(tmp_path: Path, text: str, **variables: str) -> str:
    file = tmp_path / "triomq.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_config(file, {f"TRIOMQ_{name}": value for name, value in variables.items()})
    return str(error.value).removeprefix(f"{file}: ")


def test_endpoint_types_are_the_built_in_ones_and_those_of_installed_packages(folder: Path) -> None:
    built_in = {"amqp": AMQP, "emqp": EMQP, "tap": Tap, "restms": RestMS, "mtl": MTL, "micromsg": MicroMsg}
    assert dict(EndpointTypes()) == built_in
    install(folder)
    types = EndpointTypes()
    assert (list(types), len(types), "lines" in types, "nails" in types) == (
        ["amqp", "emqp", "tap", "restms", "mtl", "micromsg", "lines"],
        7,
        True,
        False,
    )
    assert "triomq_lines" not in sys.modules  # a list imports nothing
    assert types["lines"].protocol == "lines of text"
    with pytest.raises(KeyError):
        types["nails"]


def test_endpoint_of_an_unknown_type_is_refused_with_the_known_ones(folder: Path, tmp_path: Path) -> None:
    text = '[[endpoints]]\ntype = "liens"'
    assert (
        trouble(tmp_path, text)
        == f"endpoints[0].type: found 'liens', allowed are 'amqp', 'emqp', 'tap', 'restms', 'mtl', 'micromsg'; {OTHERS}"
    )
    install(folder)
    assert (
        trouble(tmp_path, text)
        == "endpoints[0].type: found 'liens', allowed are 'amqp', 'emqp', 'tap', 'restms', 'mtl', 'micromsg', 'lines'; "
        f"{OTHERS}"
    )
    assert trouble(tmp_path, "[[endpoints]]\nport = 1") == (
        "endpoints[0] has no 'type', which says what it is; allowed are "
        f"'amqp', 'emqp', 'tap', 'restms', 'mtl', 'micromsg', 'lines'; {OTHERS}"
    )


def test_foreign_endpoint_is_configured_by_file_environment_and_options(folder: Path, tmp_path: Path) -> None:
    install(folder)
    file = tmp_path / "triomq.toml"
    file.write_text('[[endpoints]]\ntype = "lines"\ndepth = 3', encoding="utf-8")
    environment = {
        "TRIOMQ_ENDPOINTS_0_PORT": "7001",
        "TRIOMQ_ENDPOINTS_1_DEPTH": "5",
        "TRIOMQ_ENDPOINTS_1_TYPE": "lines",
        "TRIOMQ_ENDPOINTS_2_TYPE": "amqp",
        "TRIOMQ_ENDPOINTS_2_CHANNEL_MAX": "9",
    }
    config = load_config(file, environment, options={"host": "::1"})
    lines = EndpointTypes()["lines"]
    assert config.endpoints == (lines(host="::1", port=7001, depth=3), lines(depth=5), AMQP(channel_max=9))  # type: ignore[call-arg]  # of a Struct that mypy cannot know
    assert config == Config(endpoints=config.endpoints)
    assert [endpoint.virtual_hosts for endpoint in config.endpoints] == [{}, {}, {"/": "default"}]


@pytest.mark.parametrize(
    ("line", "variables", "text"),
    [
        ("prot = 1", {}, "endpoints[0].prot is not known; did you mean 'port'?"),
        ("port = 70000", {}, "endpoints[0].port: found 70000, expected int <= 65535"),
        ("channel_max = 1", {}, "endpoints[0].channel_max is not known; known are 'type', 'host', 'port', 'depth'"),
        ("", {"ENDPOINTS_0_DEPHT": "1"}, "TRIOMQ_ENDPOINTS_0_DEPHT is not known; did you mean 'TRIOMQ_ENDPOINTS_0_DEP"),
    ],
)
def test_foreign_endpoint_has_errors_as_good_as_the_built_in_ones(
    folder: Path, tmp_path: Path, line: str, variables: dict[str, str], text: str
) -> None:
    install(folder)
    assert trouble(tmp_path, f'[[endpoints]]\ntype = "lines"\n{line}', **variables).startswith(text)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("Lines = 5", "is 5; it must be a Struct with the base EndpointConfig and tag='lines'"),
        ("from triomq import AMQP as Lines", "must be a Struct with the base EndpointConfig and tag='lines'"),
    ],
)
def test_foreign_endpoint_that_cannot_be_loaded_names_which_package_brings_it(
    folder: Path, tmp_path: Path, module: str, text: str
) -> None:
    install(folder, module=module)
    found = trouble(tmp_path, '[[endpoints]]\ntype = "lines"')
    assert found.startswith("endpoints[0].type: the type 'lines' comes from the package 'triomq-lines', whose ")
    assert text in found
    assert text in trouble(tmp_path, '[[endpoints]]\ntype = "lines"', ENDPOINTS_0_PORT="1")
    assert load_config(environment={}) == Config()  # whoever does not name it does not notice


async def test_foreign_endpoint_brings_its_codecs_and_its_standard_sinks(folder: Path) -> None:
    install(folder)
    message = QueueMessage(Head("e", "k", 0, 4, 1, traits=traits_of(codec=77)), b"blue")
    async with open_broker() as broker:
        assert broker.context.codecs.decode(message) == Properties()
        await broker.listen(EndpointTypes()["lines"](port=0))  # type: ignore[call-arg]  # as above
        await broker.listen(EndpointTypes()["lines"](port=0))  # type: ignore[call-arg]  # as above
        assert broker.context.codecs.decode(message).app_id == "blue"
        await broker.add_domain("later")
        for name in broker.domains:
            assert "lines" in broker.context.domains[name].directory.sinks


def test_store_may_have_messages_of_an_installed_protocol_that_does_not_listen(folder: Path, tmp_path: Path) -> None:
    message = QueueMessage(Head("e", "k", 0, 4, 1, traits=traits_of(codec=77)), b"blue")
    install(folder)
    assert Tree().codecs.decode(message) == Properties()
    assert Tree(StoreSettings(tmp_path)).codecs.decode(message).app_id == "blue"


def test_package_that_cannot_be_loaded_does_not_stop_a_broker_with_a_store(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(folder, module="import no_such_module")
    Tree(StoreSettings(tmp_path))
    assert [record.message for record in caplog.records] == ["endpoint type not available"]


def test_default_configuration_looks_for_no_packages() -> None:
    program = (
        "import sys, triomq.app\n"
        "sys.addaudithook(lambda event, _: event == 'os.listdir' and print('searched'))\n"
        "triomq.app.load_config(environment={})\n"
        "print('done')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
