"""From a queue to consumers: strategies, feeds, windows."""
