"""Benchmarks, each a function that returns a `Section`."""
