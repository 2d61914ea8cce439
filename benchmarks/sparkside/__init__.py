"""What `benchmarks/spark.py` is made of: records, the queries that read and write them, and those who do it by hand."""
