"""From a sink to queues: bindings, patterns, predicates."""
