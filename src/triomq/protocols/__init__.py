"""What all wire protocols share: the shape of an engine, field tables, message properties, dates.

Each protocol is a package of its own in here, with a front door of its own.
"""

from triomq.protocols.dates import http_date, parse_http_date
from triomq.protocols.engine import Engine, Outgoing
from triomq.protocols.fields import FieldValue, Table, Timestamp, Typed, decode_table, encode_table
from triomq.protocols.layouts import Layout, layout_of
from triomq.protocols.properties import (
    NO_PROPERTIES,
    BasicProperties,
    decode_properties,
    encode_properties,
    read_property,
    replace_text,
)

__all__ = [
    "NO_PROPERTIES",
    "BasicProperties",
    "Engine",
    "FieldValue",
    "Layout",
    "Outgoing",
    "Table",
    "Timestamp",
    "Typed",
    "decode_properties",
    "decode_table",
    "encode_properties",
    "encode_table",
    "http_date",
    "layout_of",
    "parse_http_date",
    "read_property",
    "replace_text",
]
