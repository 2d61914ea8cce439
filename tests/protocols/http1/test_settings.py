"""Limits that would let no request in are refused."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols.http1 import Settings


@pytest.mark.parametrize(("line", "head"), [(63, 100), (101, 100)])
def test_line_fits_into_a_head(line: int, head: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"max_line is {line} and max_head {head}"):
        Settings(max_line=line, max_head=head)
