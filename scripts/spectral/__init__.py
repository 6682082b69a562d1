"""Whether the spectrum of a game says which update rule trains best: what scripts/spectra.py is made of."""
