"""What heads are made of (RFC 9110 sections 5.5 and 5.6.2, RFC 9112 sections 3 and 4), in regular expressions."""

from typing import Final

TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""A name: of a method, of a header field."""

VALUE: Final = r"[\t -~\x80-\xff]*"
"""A value, with the spaces around it. Empty values are values; the upper half is what is left of other alphabets."""

REQUEST_LINE: Final = rf"({TOKEN}) ([!-\"$-~]+) HTTP/1\.([01])"
"""A target has no ``#``: a fragment is the client's own."""

STATUS_LINE: Final = rf"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: ({VALUE}))?"
