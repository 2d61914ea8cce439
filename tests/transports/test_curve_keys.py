"""Keys in files, as ZeroMQ's own tools read them."""

from pathlib import Path

import pytest
import zmq
import zmq.auth

from triomq.errors import ConfigError
from triomq.transports import make_curve_keys, read_curve_keys, write_curve_keys


def test_pair_is_read_as_it_was_written_and_its_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    keys, file = make_curve_keys(), tmp_path / "ada.key_secret"
    write_curve_keys(file, keys)
    assert read_curve_keys(file) == keys
    assert file.stat().st_mode & 0o777 == 0o600
    assert zmq.auth.load_certificate(file) == (keys.public.encode(), keys.secret.encode())
    assert zmq.curve_public(keys.secret.encode()) == keys.public.encode()
    assert keys.secret not in repr(keys)


def test_public_key_alone_is_read_from_a_file_of_pyzmq(tmp_path: Path) -> None:
    public_file, secret_file = zmq.auth.create_certificates(tmp_path, "ada")
    both, one = read_curve_keys(Path(secret_file)), read_curve_keys(Path(public_file))
    assert both.secret
    assert (one.public, one.secret) == (both.public, "")


def test_file_is_never_written_over(tmp_path: Path) -> None:
    file = tmp_path / "ada.key_secret"
    file.write_text("precious")
    with pytest.raises(ConfigError, match="name a file that is not there"):
        write_curve_keys(file, make_curve_keys())
    assert file.read_text() == "precious"


@pytest.mark.parametrize("content", [b"", b'public-key = "short"', b"\xff\xfe"])
def test_file_without_a_public_key_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ada.key"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"ada\.key"):
        read_curve_keys(file)
