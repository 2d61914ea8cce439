"""What all wire protocols share: the shape of an engine, field tables, message properties, dates.

Each protocol is a package of its own in here, with a front door of its own.
"""

from triomq.protocols.dates import http_date, parse_http_date
from triomq.protocols.engine import Engine, Outgoing
from triomq.protocols.fields import (
    MOST_VALUES,
    FieldValue,
    Table,
    Timestamp,
    TooManyFields,
    Typed,
    decode_table,
    encode_table,
)
from triomq.protocols.layouts import Layout, layout_of
from triomq.protocols.properties import (
    NO_PROPERTIES,
    BasicProperties,
    decode_properties,
    encode_properties,
    join_headers,
    read_property,
    replace_text,
    split_headers,
)
from triomq.protocols.times import in_units

__all__ = [
    "MOST_VALUES",
    "NO_PROPERTIES",
    "BasicProperties",
    "Engine",
    "FieldValue",
    "Layout",
    "Outgoing",
    "Table",
    "Timestamp",
    "TooManyFields",
    "Typed",
    "decode_properties",
    "decode_table",
    "encode_properties",
    "encode_table",
    "http_date",
    "in_units",
    "join_headers",
    "layout_of",
    "parse_http_date",
    "read_property",
    "replace_text",
    "split_headers",
]
