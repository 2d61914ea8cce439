"""The source and the sink for Spark."""
