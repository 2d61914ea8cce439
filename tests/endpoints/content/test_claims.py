"""What messages say of themselves that the broker answers for."""

import pytest

from triomq.endpoints.content import InvalidProperties, check_expiration


def test_expiration_is_a_number_of_milliseconds_from_zero() -> None:
    for expiration in (None, "0", "60000", "+1", "-0", "315360000000"):
        check_expiration(expiration)
    for expiration, reason in (
        ("-1", "value_negative,-1"),
        ("", "no_integer"),
        ("a", "no_integer"),
        ("١", "no_integer"),
        ("1.5", 'leftover_string,".5"'),
        ("315360000001", "value_too_large,315360000001"),
    ):
        with pytest.raises(InvalidProperties, match=reason):
            check_expiration(expiration)
