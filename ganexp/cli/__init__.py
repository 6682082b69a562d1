"""Hydra, runs and sweeps, resuming, and errors as users see them: the only room that imports Hydra."""
