"""Hydra, runs and sweeps, resuming, and errors for people: the only room that imports Hydra."""
