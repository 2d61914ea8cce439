"""The Trio-native AMQP 0-9-1 client; what is public is offered by ``triomq.clients``."""
