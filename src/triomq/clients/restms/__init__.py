"""The RestMS client for Trio."""
