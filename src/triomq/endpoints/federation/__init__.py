"""Brokers that tell each other what they have, over class 61501 of AMQP."""
