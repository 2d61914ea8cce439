"""Ten minutes of everything at once, and what is left of it in memory."""
