"""What the libraries of `benchmarks/jobs.py` run: a module for each, imported by its workers and run by its client."""
