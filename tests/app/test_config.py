"""The configuration of a broker on its own."""

from pathlib import Path
from textwrap import dedent

import pytest

from triomq import AMQP, EMQP, MTL, Config, Log, RestMS, Tap, Trace, User, load_config
from triomq.errors import ConfigError

WHOLE = """
domains = ["default", "shop"]
drain = 10

[[endpoints]]
type = "amqp"
host = "0.0.0.0"
virtual_hosts = {"/" = "default", shop = "shop"}

[[endpoints]]
type = "amqp"
path = "/run/triomq.sock"

[users.ada]
password = "unlikely secret"

[users.bob]
password_file = "secrets/bob"

[log]
level = "warning"
format = "json"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration that says everything, with the secrets that it names."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "bob").write_text("another secret\n", encoding="utf-8")
    path = tmp_path / "triomq.toml"
    path.write_text(WHOLE, encoding="utf-8")
    return path


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "triomq.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_hold_without_a_file() -> None:
    assert load_config(environment={}) == Config()
    assert Config().endpoints == (AMQP(),)
    assert Config().all_users() is None


def test_file_says_everything(file: Path) -> None:
    config = load_config(file, {})
    assert config.endpoints == (
        AMQP(host="0.0.0.0", virtual_hosts={"/": "default", "shop": "shop"}),
        AMQP(path="/run/triomq.sock"),
    )
    assert config.domains == ("default", "shop")
    assert config.log == Log("warning", "json")
    assert config.drain == 10.0
    assert {name: user.read_password(name) for name, user in (config.all_users() or {}).items()} == {
        "ada": "unlikely secret",
        "bob": "another secret",
    }


def test_options_go_before_the_environment_and_that_before_the_file(file: Path) -> None:
    environment = {"TRIOMQ_ENDPOINTS_0_PORT": "1", "TRIOMQ_LOG_LEVEL": "error", "TRIOMQ_DRAIN": "2"}
    config = load_config(file, environment, options={"port": 5, "level": "debug"})
    virtual_hosts = {"/": "default", "shop": "shop"}
    assert config.endpoints[0] == AMQP(host="0.0.0.0", port=5, virtual_hosts=virtual_hosts)
    assert (config.log.level, config.log.format, config.drain) == ("debug", "json", 2.0)


def test_hosts_may_be_a_list_in_the_file_the_environment_and_the_options(tmp_path: Path) -> None:
    path = write(tmp_path, '[[endpoints]]\ntype = "amqp"\nhost = ["127.0.0.1", "localhost"]')
    both = {"TRIOMQ_ENDPOINTS_0_HOST": '["127.0.0.2", "::1"]'}
    found = [
        load_config(path, {}),
        load_config(path, both),
        load_config(path, {"TRIOMQ_ENDPOINTS_0_HOST": "::1"}),
        load_config(path, both, options={"host": ["127.0.0.3", "127.0.0.1"]}),
    ]
    assert [config.endpoints[0].hosts for config in found] == [
        ("127.0.0.1", "localhost"),
        ("127.0.0.2", "::1"),
        ("::1",),
        ("127.0.0.3", "127.0.0.1"),
    ]
    assert found[0].endpoints == (AMQP(host=("127.0.0.1", "localhost")),)
    assert found[1].endpoints[0].place == "127.0.0.2:5672, [::1]:5672"


@pytest.mark.parametrize(
    ("host", "trouble"),
    [
        ("[]", r"host: found \[\], expected array of length >= 1"),
        ("5", r"host: found 5, expected str \| array"),
        ('["a", 5]', r"host\[1\]: found 5, expected str"),
    ],
)
def test_hosts_that_are_none_are_named(tmp_path: Path, host: str, trouble: str) -> None:
    path = write(tmp_path, f'[[endpoints]]\ntype = "amqp"\nhost = {host}')
    with pytest.raises(ConfigError, match=rf"endpoints\[0\]\.{trouble}"):
        load_config(path, {})


@pytest.mark.parametrize("text", ["endpoints = []", '[[endpoints]]\ntype = "amqp"\npath = "/run/x"', ""])
def test_option_for_a_port_means_the_first_endpoint_which_then_has_one(tmp_path: Path, text: str) -> None:
    assert load_config(write(tmp_path, text), {}, options={"port": 7}).endpoints == (AMQP(port=7),)


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("", (AMQP(), EMQP(port=7))),
        ('[[endpoints]]\ntype = "emqp"\nheartbeat = 1.0', (EMQP(port=7, heartbeat=1.0),)),
        ('[[endpoints]]\ntype = "amqp"', (AMQP(), EMQP(port=7))),
    ],
)
def test_option_for_emqp_adds_an_endpoint_or_sets_the_port_of_the_one_that_is_there(
    tmp_path: Path, text: str, endpoints: tuple[object, ...]
) -> None:
    assert load_config(write(tmp_path, text), {}, options={"emqp": 7}).endpoints == endpoints


def test_option_for_tap_adds_an_endpoint() -> None:
    assert load_config(environment={}, options={"tap": 7, "emqp": 8}).endpoints == (AMQP(), Tap(port=7), EMQP(port=8))


def test_option_for_restms_adds_an_endpoint() -> None:
    assert load_config(environment={}, options={"restms": 7}).endpoints == (AMQP(), RestMS(port=7))


def test_option_for_mtl_adds_an_endpoint_with_the_data_port_behind_it() -> None:
    endpoints = load_config(environment={}, options={"mtl": 7}).endpoints
    assert endpoints == (AMQP(), MTL(port=7, data_port=8))


def test_wrong_port_for_emqp_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--emqp: endpoints\[1\]\.port: found 70000"):
        load_config(environment={}, options={"emqp": 70000})


def test_store_has_a_directory_beside_the_file_or_where_the_command_line_says(tmp_path: Path) -> None:
    path = write(tmp_path, 'data_dir = "data"\nqueue_memory = 100_000\nstore_host = "thread"')
    config = load_config(path, {})
    assert (config.data_dir, config.queue_memory, config.store_host) == (str(tmp_path / "data"), 100_000, "thread")
    environment = {"TRIOMQ_DATA_DIR": "/elsewhere", "TRIOMQ_QUEUE_MEMORY": "200000", "TRIOMQ_STORE_HOST": "process"}
    config = load_config(path, environment)
    assert (config.data_dir, config.queue_memory, config.store_host) == ("/elsewhere", 200_000, "process")
    assert load_config(path, environment, options={"data": "/typed"}).data_dir == "/typed"


def test_wrong_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--port: endpoints\[0\]\.port: found 70000, expected int <= 65535"):
        load_config(environment={}, options={"port": 70000})


def test_option_does_not_hide_that_the_file_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write(tmp_path, "endpoints = 5\nlog = 7"), {}, options={"port": 7, "level": "debug"})
    assert "endpoints: found 5, expected array" in str(error.value)
    assert "log: found 7, expected object" in str(error.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"endpoints = [", "is not TOML: "),
        (b'a = "\xff"', "TOML"),
        (b"[users.ada]", "users.ada: a user needs a password that is not empty, or a password_file"),
        (b'[users.ada]\npassword = ""', "users.ada: a user needs a password that is not empty"),
        (b'[users.ada]\npassword = "a"\npassword_file = "b"', "either a password or a password_file, not both"),
        (b'domains = [""]', "domains[0]: found '', expected str of length >= 1"),
        (b"domains = []", "domains: found [], expected array of length >= 1"),
        (
            b'domains = ["shop"]',
            "endpoints[0].virtual_hosts: '/' leads to the domain 'default', but domains has 'shop'",
        ),
        (b'[[endpoints]]\ntype = "amqp"\nhost = "0.0.0.0"', "configure users"),
        (b'[users.ada]\npassword_file = "missing"', "users.ada.password_file: cannot read "),
        (b"queue_memory = 8", "queue_memory: found 8, expected int >= 65536"),
        (b'store_host = "elsewhere"', "store_host: found 'elsewhere', allowed are 'process', 'thread'"),
        (b'data_dir = "triomq.toml"', "data_dir: "),
        (b"drain = -1", "drain: found -1, expected float >= 0.0"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "triomq.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        load_config(path, {})
    assert str(error.value).startswith(str(path))
    assert text in str(error.value)


def test_file_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*: No such file or directory; name a file in TOML"):
        load_config(tmp_path / "missing.toml", {})


@pytest.mark.parametrize(("secret", "text"), [(b"", "is empty"), (b"\n", "is empty"), (b"\xff", "is no text in UTF-8")])
def test_file_that_holds_no_password_says_so(file: Path, secret: bytes, text: str) -> None:
    (file.parent / "secrets" / "bob").write_bytes(secret)
    with pytest.raises(ConfigError, match=text):
        load_config(file, {})


@pytest.mark.parametrize("secret", ["another secret", "another secret\n", "another secret\r\n"])
def test_newline_at_the_end_of_a_secret_does_not_count(file: Path, secret: str) -> None:
    (file.parent / "secrets" / "bob").write_bytes(secret.encode())
    assert load_config(file, {}).users["bob"].read_password("users.bob") == "another secret"


def test_secret_is_read_anew_each_time(file: Path) -> None:
    config = load_config(file, {})
    (file.parent / "secrets" / "bob").write_text("changed", encoding="utf-8")
    assert config.users["bob"].read_password("users.bob") == "changed"


def test_password_is_never_shown(file: Path) -> None:
    config = load_config(file, {})
    for shown in (repr(config), str(config), f"{config.users['ada']}"):
        assert "unlikely" not in shown
        assert "another" not in shown
    assert repr(User(password="x")) == "User(password=…)"


def test_file_that_the_documentation_shows_is_one_that_works(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "configure.rst"
    block = page.read_text(encoding="utf-8").partition(".. code-block:: toml\n")[2].partition("\nSeconds are")[0]
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "ada").write_text("secret", encoding="utf-8")
    config = load_config(write(tmp_path, dedent(block)), {})
    assert [endpoint.hosts for endpoint in config.endpoints] == [("0.0.0.0",), ()]
    assert set(config.users) == {"ada", "bob"}


def test_trace_log_stands_beside_the_configuration_and_options_go_before(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="PyArrow is not installed; pip install 'triomq[trace]'")
    path = write(tmp_path, '[trace]\ndirectory = "traces"\nrate = 0.5\nqueues = { "orders.*" = 1 }')
    trace = load_config(path, {}).trace
    assert trace == Trace(str(tmp_path / "traces"), 0.5, {"orders.*": 1})
    assert load_config(path, {"TRIOMQ_TRACE_RATE": "0.25"}).trace.rate == 0.25
    trace = load_config(path, {}, options={"trace": "/typed", "trace_rate": 0.0}).trace
    assert (trace.directory, trace.rate, trace.rate_of("orders.eu")) == ("/typed", 0.0, 1)


def test_trace_log_without_what_it_needs_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.tracelog.config.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"trace\.directory: the trace log needs PyArrow; pip install"):
        load_config(write(tmp_path, '[trace]\ndirectory = "traces"'), {})
