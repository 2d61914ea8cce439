"""``open_micromsg``: the MicroMsg2 client for Trio."""
