"""What an ``Authorization`` says, by HTTP Basic."""

from base64 import b64encode

import pytest

from triomq.endpoints.http.basic_login import read_basic
from triomq.security import Credentials


@pytest.mark.parametrize(
    ("decoded", "credentials"),
    [
        (b"guest:guest", Credentials("guest", b"guest")),
        (b"a:b:c", Credentials("a", b"b:c")),
        (b":", Credentials("", b"")),
        ("Jürgen:ü".encode(), Credentials("Jürgen", "ü".encode())),
        (b"\xff:x", Credentials("\udcff", b"x")),
        (b"guest", None),
        (b"", None),
    ],
)
def test_name_ends_at_the_first_colon(decoded: bytes, credentials: Credentials | None) -> None:
    for scheme in ("Basic", "basic", "BASIC"):
        assert read_basic(f"{scheme} {b64encode(decoded).decode()}") == credentials


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic a", "Basic Zzp n", "Basic \xe9", "Digest Z3Vlc3Q6Z3Vlc3Q=", "Zzpn"]
)
def test_what_is_no_basic_names_nobody(header: str) -> None:
    assert read_basic(header) is None
