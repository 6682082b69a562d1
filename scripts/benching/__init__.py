"""The parts of scripts/bench.py: workloads, rules, the space they are tuned in, runs, results, statistics, and the page."""
