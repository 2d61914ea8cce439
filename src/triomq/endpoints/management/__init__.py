"""Looking into a running broker."""
