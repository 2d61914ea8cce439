"""A queue: the actor, its state, and what happens to its messages."""
