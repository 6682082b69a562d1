"""The parts of scripts/spectra.py, which tests whether the spectrum of a game predicts the best update rule."""
