"""Streams by ranges: tap's listener, and what its requests mean to the core."""
