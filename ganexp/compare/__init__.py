"""Comparison of strategies: races, counted costs, plain loops as baselines, and traces."""
