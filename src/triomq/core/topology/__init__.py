"""What exists in a domain, and who may make it."""
