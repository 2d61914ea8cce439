"""What there is in a domain, and who may make it."""
