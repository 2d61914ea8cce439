"""``open_mtl``: the MTL client for Trio (11/MTL)."""
