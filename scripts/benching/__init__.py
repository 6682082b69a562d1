"""The parts of scripts/bench.py: workloads, rules, the space they are tuned in, runs, results, statistics, and the page."""

NAME, RELEASE = "ganexp update-rule bench", "2.0"
"""What results are cited by. A release is the tag `bench-2.0`: its workloads, space, choice and statistics stay as they are."""
