"""Brokers that are killed in the middle of their work: whatever they have confirmed must be there again."""
