"""The same pipeline on several executors, and through Spark Connect; all of it from the wheel of PySpark."""
