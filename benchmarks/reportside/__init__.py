"""What the benchmark of reports is made of: a trace log, and the same questions for DuckDB."""
