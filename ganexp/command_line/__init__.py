"""Hydra, jobs, sweeps, resuming, and mistakes said in sentences: the only room that imports Hydra."""
