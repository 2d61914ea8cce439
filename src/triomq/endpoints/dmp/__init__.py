"""DMP: direct connections, which an AMQP connection leases."""
