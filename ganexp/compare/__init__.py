"""Comparison of strategies: races, counted costs, rankings, and plain loops as baselines."""
