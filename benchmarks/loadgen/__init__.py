"""A load generator for AMQP 0-9-1 brokers: raw sockets, frames encoded beforehand, nothing that waits in between.

Every module is one noun; `benchmarks/amqp.py` says what is measured and in what order.
"""
