"""The configuration of an eMQP endpoint."""

import subprocess
import sys
from pathlib import Path

import pytest

from triomq import load_config
from triomq.endpoints import AMQP, EMQP
from triomq.endpoints.base.endpoint_config import read_secret_key
from triomq.errors import ConfigError
from triomq.transports import CurveKeys, make_curve_keys, write_curve_keys


def test_file_may_ask_for_emqp(tmp_path: Path) -> None:
    write_curve_keys(tmp_path / "broker.key_secret", make_curve_keys())
    text = """
    [[endpoints]]
    type = "emqp"
    host = "0.0.0.0"
    port = 47000
    security = "curve"
    key_file = "broker.key_secret"
    [users.ada]
    password = "secret"
    """
    file = tmp_path / "triomq.toml"
    file.write_text(text)
    (found,) = load_config(file, {}).endpoints
    assert isinstance(found, EMQP)
    assert (found.place, found.name, found.hosts) == ("0.0.0.0:47000", "emqp-0.0.0.0-47000", ("0.0.0.0",))
    assert len(read_secret_key(found.key_file)) == 40


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"host": "0.0.0.0"}, "host: '0.0.0.0' is open to other machines"),
        ({"host": ["127.0.0.1", "0.0.0.0"]}, "host: '0.0.0.0' is open to other machines"),
        ({"host": []}, r"host: found \[\], expected array of length >= 1"),
        ({"host": "*", "security": "null"}, "nobody says who it is"),
        ({"security": "curve"}, "key_file: it belongs to security 'curve'"),
        ({"key_file": "keys"}, "key_file: it belongs to security 'curve'"),
        ({"security": "kerberos"}, "security: found 'kerberos'"),
        ({"heartbeat": 20}, "must be longer than heartbeat"),
    ],
)
def test_contradictory_configuration_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        EMQP(**options)  # type: ignore[arg-type]


def test_domain_and_keys_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="domain: found 'shop'"):
        EMQP(domain="shop").check(["default"])
    with pytest.raises(ConfigError, match="cannot read the keys"):
        EMQP(security="curve", key_file=str(tmp_path / "none")).check(["default"])
    public = tmp_path / "broker.key"
    write_curve_keys(public, CurveKeys(make_curve_keys().public))
    with pytest.raises(ConfigError, match="the public key alone"):
        EMQP(security="curve", key_file=str(public)).check(["default"])


def test_keys_encrypt_and_passwords_do_not() -> None:
    assert [EMQP(host="*", security="plain").is_encrypted, AMQP().is_encrypted] == [False, False]
    assert EMQP(host="*", security="curve", key_file="keys").is_encrypted


def test_url_names_a_user_only_where_one_is_asked_for() -> None:
    assert EMQP().client_url("127.0.0.1:47291", "guest:guest") == "emqp://127.0.0.1:47291"
    assert EMQP(security="plain").client_url("there:1", "guest:guest") == "emqp://guest:guest@there:1"


def test_brokers_without_emqp_load_no_pyzmq() -> None:
    code = "import sys; from triomq.app import open_broker; import triomq.clients; sys.exit('zmq' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
