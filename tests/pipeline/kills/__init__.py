"""Pipelines whose parts are killed again and again: each record arrives once."""
