"""AMQP 0-9-1: events of its engine to calls of the core, and back."""
