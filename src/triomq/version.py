"""The version of this package; a frozen program has no metadata that it could be read from."""

__version__ = "0.1.0"
